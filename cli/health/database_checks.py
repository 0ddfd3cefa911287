"""What `autoinfer doctor` asks of the database: whether it opens, what it knows of noise and paid runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.health.check_result import Check, Verdict
from configs.errors import AutoinferError, DatabaseMissing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

DATABASE, NOISE, PAID = "database", "noise profile", "rented machines"

NO_PROFILE = Check(NOISE, Verdict.OK, "none yet; a campaign begins one, autoinfer aa makes it larger")
NOTHING_PAID = Check(PAID, Verdict.OK, "nothing runs there that this database knows of")


def check_database(url: str) -> list[Check]:
    """Open the database once, as every command does, and look at what it tells; changes nothing."""
    from db.address import parse_address
    from db.session import open_database

    try:
        shown = parse_address(url).shown
        database = open_database(url)
    except DatabaseMissing:
        found = f"none yet at {shown}; the first campaign makes it"
        return [Check(DATABASE, Verdict.OK, found), NO_PROFILE, NOTHING_PAID]
    except AutoinferError as error:
        return [Check(DATABASE, Verdict.FAIL, error.message, error.hint), *_unknown()]
    try:
        with database.read() as session:
            return [Check(DATABASE, Verdict.OK, shown), noise_of(session), paid_of(session)]
    except AutoinferError as error:
        return [Check(DATABASE, Verdict.FAIL, error.message, error.hint), *_unknown()]
    finally:
        database.close()


def noise_of(session: Session) -> Check:
    """The noise profiles of this machine: how many launches, and how old the newest is."""
    from configs.cpu import probe_cpu
    from configs.quantities import format_duration
    from db.noise import stored_profiles
    from knowledge.figures import counted

    told = "; ".join(
        f"{counted(each.launches, 'launch', 'launches')} of the model {each.model_fingerprint[:12]} on "
        f"{each.metric} ({counted(each.degrees_of_freedom, 'degree')} of freedom), "
        f"the newest {format_duration(each.age_s)} ago"
        for each in stored_profiles(session, probe_cpu().target_key)
    )
    return Check(NOISE, Verdict.OK, told) if told else NO_PROFILE


def paid_of(session: Session) -> Check:
    """Runs on rented machines, and whether a worker looks after them."""
    from knowledge.figures import counted
    from knowledge.queries.spent.paid_runs import END, runs_in_flight, unattended

    found, in_flight = unattended(session), runs_in_flight(session)
    if found is not None:
        advice = f"End what runs with {END}, or go on with it: autoinfer worker --target TARGET"
        return Check(PAID, Verdict.WARN, found.sentence, advice)
    if not in_flight:
        return NOTHING_PAID
    return Check(PAID, Verdict.OK, f"{counted(in_flight, 'run')} in flight, looked after by workers")


def _unknown() -> list[Check]:
    """What can't be told where the database can't be read."""
    mend = "Mend the database, as its check above says."
    return [
        Check(NOISE, Verdict.WARN, "not known, since the database can't be read", mend),
        Check(
            PAID,
            Verdict.WARN,
            "whether anything runs there is not known, since the database can't be read",
            mend,
        ),
    ]
