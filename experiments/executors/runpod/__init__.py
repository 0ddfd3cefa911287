"""Jobs on pods of RunPod: rented machines that run one job each and end themselves."""
