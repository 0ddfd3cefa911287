"""The addresses of a campaign's report: HTML, Markdown, JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from dashboard.page import ALWAYS_S
from dashboard.report.html import as_html, policy
from dashboard.report.markdown import as_markdown
from dashboard.routes import LABEL_LENGTH, Server
from dashboard.web.kept import keep
from db.labels import Noun
from knowledge.queries.lookup import labelled
from knowledge.report.gathering import report
from knowledge.report.view import ReportView

Label = Annotated[str, Path(max_length=LABEL_LENGTH)]


def add_report(app: FastAPI, server: Server) -> None:
    """Add the three forms of a report to the app."""
    router = APIRouter(tags=["pages"])

    def read(http: Request, label: str) -> ReportView:
        keep(http, ALWAYS_S)
        with server.database.read() as session:
            number = labelled(session, Noun.CAMPAIGN, label)
            return report(session, number, datetime.now(UTC).replace(microsecond=0))

    @router.get("/campaigns/{label}/report.html", name="report", response_class=HTMLResponse)
    def html(http: Request, label: Label) -> HTMLResponse:
        """A campaign's report, a file that asks for nothing else."""
        headers = {"content-security-policy": f"{policy()}; frame-ancestors 'none'"}
        return HTMLResponse(as_html(read(http, label)), headers=headers)

    @router.get(
        "/campaigns/{label}/report.md",
        name="report.md",
        responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
        response_class=Response,
    )
    def markdown(http: Request, label: Label) -> Response:
        """A campaign's report as Markdown."""
        return Response(as_markdown(read(http, label)), media_type="text/markdown; charset=utf-8")

    @router.get("/campaigns/{label}/report.json", name="report.json", response_model=ReportView)
    def as_json(http: Request, label: Label) -> JSONResponse:
        """A campaign's report as JSON."""
        return JSONResponse(read(http, label).model_dump(mode="json"))

    app.include_router(router)
