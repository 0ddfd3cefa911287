"""The first schema: all the nouns, the durable queue and the event log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
QUEUED = sa.text("state = 'queued'")
RUNNING = sa.text("state = 'running'")


def upgrade() -> None:
    op.create_table(
        "artifact",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(200), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.Column("tool_versions", sa.JSON(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("build_s", sa.Double(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_artifact"),
    )
    op.create_index("ix_artifact_last_used_at", "artifact", ["last_used_at"])
    op.create_table(
        "configuration",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("knobs", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_configuration"),
        sa.UniqueConstraint("digest", name="uq_configuration_digest"),
    )
    op.create_table(
        "environment",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_environment"),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("host", sa.String(200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker"),
    )
    op.create_index("ix_worker_name", "worker", ["name"])
    op.create_table(
        "campaign",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("model_fingerprint", sa.String(200), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("objective", sa.JSON(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("budget", sa.JSON(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("stopped_because", sa.Text()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("baseline_configuration_id", sa.Integer()),
        sa.Column("naive_configuration_id", sa.Integer()),
        sa.Column("best_experiment_id", sa.Integer()),
        sa.Column("owner", sa.String(200)),
        sa.Column("owner_lease_expires_at", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["baseline_configuration_id"],
            ["configuration.id"],
            name="fk_campaign_baseline_configuration_id_configuration",
        ),
        sa.ForeignKeyConstraint(
            ["best_experiment_id"],
            ["experiment.id"],
            name="fk_campaign_best_experiment_id_experiment",
            use_alter=True,
        ),
        sa.ForeignKeyConstraint(
            ["naive_configuration_id"],
            ["configuration.id"],
            name="fk_campaign_naive_configuration_id_configuration",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_campaign"),
    )
    op.create_table(
        "event",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("campaign_id", sa.Integer()),
        sa.Column("kind", sa.String(200), nullable=False),
        sa.Column("subject", sa.String(200)),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON()),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_event_campaign_id_campaign"),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_event_campaign_id_id", "event", ["campaign_id", "id"])
    op.create_index("ix_event_kind_id", "event", ["kind", "id"])
    op.create_index("ix_event_subject_id", "event", ["subject", "id"])
    op.create_table(
        "finding",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer()),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("scope", sa.JSON(), nullable=False),
        sa.Column("effect_log", sa.Double()),
        sa.Column("interval_low_log", sa.Double()),
        sa.Column("interval_high_log", sa.Double()),
        sa.Column("strength", sa.String(200), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("status_reason", sa.Text()),
        sa.Column("superseded_by_id", sa.Integer()),
        sa.Column("rule", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_finding_campaign_id_campaign"),
        sa.ForeignKeyConstraint(
            ["superseded_by_id"], ["finding.id"], name="fk_finding_superseded_by_id_finding"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_finding"),
        sa.UniqueConstraint("key", name="uq_finding_key"),
    )
    op.create_index("ix_finding_campaign_id", "finding", ["campaign_id"])
    op.create_index("ix_finding_superseded_by_id", "finding", ["superseded_by_id"])
    op.create_table(
        "hypothesis",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("control_configuration_id", sa.Integer(), nullable=False),
        sa.Column("candidate_configuration_id", sa.Integer(), nullable=False),
        sa.Column("change", sa.JSON(), nullable=False),
        sa.Column("change_digest", sa.String(64), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("prediction", sa.JSON(), nullable=False),
        sa.Column("min_effect", sa.Double(), nullable=False),
        sa.Column("refuted_if", sa.Text(), nullable=False),
        sa.Column("rationale", sa.Text(), nullable=False),
        sa.Column("proposer", sa.String(200), nullable=False),
        sa.Column("lever", sa.String(200), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("rank", sa.Integer()),
        sa.Column("score", sa.JSON()),
        sa.Column("rank_reason", sa.Text()),
        sa.Column("preregistration_digest", sa.String(64)),
        sa.Column("state_reason", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("state_changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_hypothesis_campaign_id_campaign"),
        sa.ForeignKeyConstraint(
            ["candidate_configuration_id"],
            ["configuration.id"],
            name="fk_hypothesis_candidate_configuration_id_configuration",
        ),
        sa.ForeignKeyConstraint(
            ["control_configuration_id"],
            ["configuration.id"],
            name="fk_hypothesis_control_configuration_id_configuration",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hypothesis"),
        sa.UniqueConstraint(
            "campaign_id",
            "candidate_configuration_id",
            "control_configuration_id",
            name="uq_hypothesis_comparison",
        ),
    )
    op.create_index("ix_hypothesis_campaign_id_change_digest", "hypothesis", ["campaign_id", "change_digest"])
    op.create_index("ix_hypothesis_campaign_id_state_rank", "hypothesis", ["campaign_id", "state", "rank"])
    op.create_table(
        "directive",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("lever", sa.String(200)),
        sa.Column("hypothesis_id", sa.Integer()),
        sa.Column("value", sa.JSON()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("event_id", BIG_ID, nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_directive_campaign_id_campaign"),
        sa.ForeignKeyConstraint(["event_id"], ["event.id"], name="fk_directive_event_id_event"),
        sa.ForeignKeyConstraint(
            ["hypothesis_id"], ["hypothesis.id"], name="fk_directive_hypothesis_id_hypothesis"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_directive"),
    )
    op.create_index("ix_directive_campaign_id_active", "directive", ["campaign_id", "active"])
    op.create_index("ix_directive_hypothesis_id", "directive", ["hypothesis_id"])
    op.create_table(
        "experiment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("hypothesis_id", sa.Integer()),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("target", sa.String(200), nullable=False),
        sa.Column("control_configuration_id", sa.Integer(), nullable=False),
        sa.Column("candidate_configuration_id", sa.Integer()),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("stage", sa.String(200)),
        sa.Column("progress", sa.JSON()),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("preregistration_digest", sa.String(64)),
        sa.Column("reproduces_experiment_id", sa.Integer()),
        sa.Column("failure_kind", sa.String(200)),
        sa.Column("failure", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("wall_s", sa.Double()),
        sa.Column("versions", sa.JSON()),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_experiment_campaign_id_campaign"),
        sa.ForeignKeyConstraint(
            ["candidate_configuration_id"],
            ["configuration.id"],
            name="fk_experiment_candidate_configuration_id_configuration",
        ),
        sa.ForeignKeyConstraint(
            ["control_configuration_id"],
            ["configuration.id"],
            name="fk_experiment_control_configuration_id_configuration",
        ),
        sa.ForeignKeyConstraint(
            ["hypothesis_id"], ["hypothesis.id"], name="fk_experiment_hypothesis_id_hypothesis"
        ),
        sa.ForeignKeyConstraint(
            ["reproduces_experiment_id"],
            ["experiment.id"],
            name="fk_experiment_reproduces_experiment_id_experiment",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_experiment"),
    )
    op.create_index("ix_experiment_campaign_id_state", "experiment", ["campaign_id", "state"])
    op.create_index("ix_experiment_hypothesis_id", "experiment", ["hypothesis_id"])
    op.create_index("ix_experiment_reproduces_experiment_id", "experiment", ["reproduces_experiment_id"])
    op.create_table(
        "hypothesis_parent",
        sa.Column("hypothesis_id", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["hypothesis_id"], ["hypothesis.id"], name="fk_hypothesis_parent_hypothesis_id_hypothesis"
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["hypothesis.id"], name="fk_hypothesis_parent_parent_id_hypothesis"
        ),
        sa.PrimaryKeyConstraint("hypothesis_id", "parent_id", name="pk_hypothesis_parent"),
    )
    op.create_index("ix_hypothesis_parent_parent_id", "hypothesis_parent", ["parent_id"])
    op.create_table(
        "move",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("event_id", BIG_ID, nullable=False),
        sa.Column("ranking_event_id", BIG_ID, nullable=False),
        sa.Column("hypothesis_id", sa.Integer(), nullable=False),
        sa.Column("from_rank", sa.Integer()),
        sa.Column("to_rank", sa.Integer()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["event_id"], ["event.id"], name="fk_move_event_id_event"),
        sa.ForeignKeyConstraint(
            ["hypothesis_id"], ["hypothesis.id"], name="fk_move_hypothesis_id_hypothesis"
        ),
        sa.ForeignKeyConstraint(["ranking_event_id"], ["event.id"], name="fk_move_ranking_event_id_event"),
        sa.PrimaryKeyConstraint("id", name="pk_move"),
    )
    op.create_index("ix_move_event_id", "move", ["event_id"])
    op.create_index("ix_move_hypothesis_id", "move", ["hypothesis_id"])
    op.create_index("ix_move_ranking_event_id", "move", ["ranking_event_id"])
    op.create_table(
        "experiment_artifact",
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("artifact_digest", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_digest"], ["artifact.digest"], name="fk_experiment_artifact_artifact_digest_artifact"
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_experiment_artifact_experiment_id_experiment"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "artifact_digest", name="pk_experiment_artifact"),
    )
    op.create_index("ix_experiment_artifact_artifact_digest", "experiment_artifact", ["artifact_digest"])
    op.create_table(
        "job",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(200), nullable=False),
        sa.Column("campaign_id", sa.Integer()),
        sa.Column("experiment_id", sa.Integer()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("priority", sa.Double(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("device_class", sa.String(200), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("device", sa.String(200)),
        sa.Column("process", sa.JSON()),
        sa.Column("lease_expires_at", sa.BigInteger()),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name="fk_job_campaign_id_campaign"),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiment.id"], name="fk_job_experiment_id_experiment"),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
    )
    op.create_index("ix_job_campaign_id", "job", ["campaign_id"])
    op.create_index("ix_job_experiment_id", "job", ["experiment_id"])
    op.create_index(
        "ix_job_queue",
        "job",
        ["priority", "seq", "id"],
        unique=False,
        sqlite_where=QUEUED,
        postgresql_where=QUEUED,
    )
    op.create_index(
        "uq_job_running_device",
        "job",
        ["device"],
        unique=True,
        sqlite_where=RUNNING,
        postgresql_where=RUNNING,
    )
    op.create_table(
        "launch",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("arm", sa.String(24), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(200), nullable=False),
        sa.Column("configuration_id", sa.Integer(), nullable=False),
        sa.Column("resolved", sa.JSON(), nullable=False),
        sa.Column("environment_digest", sa.String(64), nullable=False),
        sa.Column("load_s", sa.Double()),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["configuration_id"], ["configuration.id"], name="fk_launch_configuration_id_configuration"
        ),
        sa.ForeignKeyConstraint(
            ["environment_digest"], ["environment.digest"], name="fk_launch_environment_digest_environment"
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_launch_experiment_id_experiment"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_launch"),
        sa.UniqueConstraint(
            "experiment_id", "attempt", "stage", "arm", "index", "configuration_id", name="uq_launch_place"
        ),
    )
    op.create_table(
        "noise_launch",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target_key", sa.String(200), nullable=False),
        sa.Column("model_fingerprint", sa.String(200), nullable=False),
        sa.Column("configuration_id", sa.Integer(), nullable=False),
        sa.Column("window", sa.String(200), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("log_centre", sa.Double(), nullable=False),
        sa.Column("log_sd_within", sa.Double(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["configuration_id"], ["configuration.id"], name="fk_noise_launch_configuration_id_configuration"
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_noise_launch_experiment_id_experiment"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_noise_launch"),
    )
    op.create_index("ix_noise_launch_experiment_id", "noise_launch", ["experiment_id"])
    op.create_index(
        "ix_noise_launch_target_key_model_fingerprint_metric",
        "noise_launch",
        ["target_key", "model_fingerprint", "metric"],
    )
    op.create_table(
        "stage_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(200), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("wall_s", sa.Double()),
        sa.Column("outcome", sa.String(24)),
        sa.Column("detail", sa.JSON()),
        sa.Column("log_path", sa.Text()),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_stage_run_experiment_id_experiment"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_stage_run"),
    )
    op.create_index("ix_stage_run_experiment_id_attempt", "stage_run", ["experiment_id", "attempt"])
    op.create_table(
        "verdict",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("hypothesis_id", sa.Integer()),
        sa.Column("outcome", sa.String(24), nullable=False),
        sa.Column("effect_log", sa.Double()),
        sa.Column("interval_low_log", sa.Double()),
        sa.Column("interval_high_log", sa.Double()),
        sa.Column("launches", sa.Integer(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("quality", sa.JSON()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("judge", sa.JSON(), nullable=False),
        sa.Column("preregistration_digest", sa.String(64)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_verdict_experiment_id_experiment"
        ),
        sa.ForeignKeyConstraint(
            ["hypothesis_id"], ["hypothesis.id"], name="fk_verdict_hypothesis_id_hypothesis"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_verdict"),
        sa.UniqueConstraint("experiment_id", name="uq_verdict_experiment_id"),
    )
    op.create_index("ix_verdict_hypothesis_id", "verdict", ["hypothesis_id"])
    op.create_table(
        "finding_evidence",
        sa.Column("finding_id", sa.Integer(), nullable=False),
        sa.Column("verdict_id", sa.Integer(), nullable=False),
        sa.Column("relation", sa.String(24), nullable=False),
        sa.ForeignKeyConstraint(
            ["finding_id"], ["finding.id"], name="fk_finding_evidence_finding_id_finding"
        ),
        sa.ForeignKeyConstraint(
            ["verdict_id"], ["verdict.id"], name="fk_finding_evidence_verdict_id_verdict"
        ),
        sa.PrimaryKeyConstraint("finding_id", "verdict_id", name="pk_finding_evidence"),
    )
    op.create_index("ix_finding_evidence_verdict_id", "finding_evidence", ["verdict_id"])
    op.create_table(
        "measurement",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("launch_id", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("item", sa.String(200), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("unit", sa.String(200), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["launch_id"], ["launch.id"], name="fk_measurement_launch_id_launch"),
        sa.PrimaryKeyConstraint("id", name="pk_measurement"),
    )
    op.create_index("ix_measurement_launch_id", "measurement", ["launch_id"])

    # Closes a circle between tables: SQLite has it in the table itself and can add no key afterwards.
    if op.get_bind().dialect.name != "sqlite":
        op.create_foreign_key(
            "fk_campaign_best_experiment_id_experiment",
            "campaign",
            "experiment",
            ["best_experiment_id"],
            ["id"],
        )
