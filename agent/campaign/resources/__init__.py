"""What a campaign runs on and may spend: devices, workers, time and dollars."""
