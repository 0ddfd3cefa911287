"""The models of all the nouns; `docs/data-model.md` shows them on one page."""

from db.models.access import AccessToken
from db.models.artifact import Artifact, ExperimentArtifact, StageRun
from db.models.base import Base, JsonObject
from db.models.campaign import Campaign, Configuration
from db.models.device import DeviceMean
from db.models.event import Directive, Event, Move
from db.models.experiment import Environment, Experiment, Launch, Measurement, NoiseLaunch
from db.models.hypothesis import Hypothesis, HypothesisParent
from db.models.job import Job, Worker
from db.models.model_answer import ModelAnswer
from db.models.remote import JobQuote, MoneyBudget, RemoteRun
from db.models.verdict import Finding, FindingEvidence, ImportedEvidence, ImportedVerdict, Verdict

__all__ = [
    "AccessToken",
    "Artifact",
    "Base",
    "Campaign",
    "Configuration",
    "DeviceMean",
    "Directive",
    "Environment",
    "Event",
    "Experiment",
    "ExperimentArtifact",
    "Finding",
    "FindingEvidence",
    "Hypothesis",
    "HypothesisParent",
    "ImportedEvidence",
    "ImportedVerdict",
    "Job",
    "JobQuote",
    "JsonObject",
    "Launch",
    "Measurement",
    "ModelAnswer",
    "MoneyBudget",
    "Move",
    "NoiseLaunch",
    "RemoteRun",
    "StageRun",
    "Verdict",
    "Worker",
]
