"""The routes of `splitbrain serve`, as a Flask application that only reads.

Whatever a request names is looked up among the rows of the store and the names of its nights; no path is made from a
request. Pages have no scripts. A report, which can come from someone else by `import`, is shown in a sandbox.

Contains routes and headers. Templates are in results/templates/web, and what they show in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from flask import Flask, Response, request, url_for
from werkzeug.exceptions import BadRequest, HTTPException, NotFound, SecurityError

from harness.judging.index import RunRow
from harness.judging.known import Known
from harness.judging.listing import RunFilter
from harness.model import Quantity, SplitbrainError
from harness.model.errors import one_line
from harness.nightly.directory import nights
from harness.nightly.summary import summary_of
from harness.serving.calendar import months, stored_nights
from harness.serving.store import ServedStore
from harness.serving.trends import Column, Trend, failure_points, measured, quantity_points, trends
from results.night_summary import page_values
from results.quantities import is_time, shown_quantities, title_of
from results.store import RunDirectory
from results.web_pages import (
    chart_markup,
    load_charts,
    quantities_side_by_side,
    render,
    style,
    timelines,
)

LOOPBACK: Final = ["127.0.0.1", "localhost", "[::1]"]
"""The hosts that a browser may name; others are those of pages that try to read this one (DNS rebinding)."""
PAGE_ROWS: Final = 100
NEWEST: Final = 10
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(path: Path, known: Known) -> Flask:
    """The application for a store, in which these findings are known. Reads the store's table once."""
    app = Flask("splitbrain", static_folder=None, template_folder=None)
    app.config.update(TRUSTED_HOSTS=LOOPBACK, MAX_CONTENT_LENGTH=0)
    store = ServedStore(path)
    store.rows()
    _Routes(store, known).register(app)

    @app.after_request
    def with_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", PAGE_POLICY)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.errorhandler(SecurityError)
    def untrusted(_error: SecurityError) -> Response:
        # The request has no address of ours, so a page could have no links.
        return Response(f"expected one of these hosts: {', '.join(LOOPBACK)}\n", 400, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> tuple[str, int]:
        return _page("problem.html.j2", title=error.name, message=error.description or ""), error.code or 500

    @app.errorhandler(SplitbrainError)
    def unreadable(error: SplitbrainError) -> tuple[str, int]:
        return _page("problem.html.j2", title="Cannot be shown", message=one_line(str(error))), 500

    return app


def _page(template: str, **values: object) -> str:
    return render(template, url_for, **values)


def _asked(name: str) -> str | None:
    """A filter of the request's query; None for all."""
    return request.args.get(name) or None


class _Routes:
    """The pages of a store."""

    def __init__(self, store: ServedStore, known: Known) -> None:
        self._store = store
        self._known = known

    def register(self, app: Flask) -> None:
        """Add the routes."""
        app.add_url_rule("/", "home", self.home)
        app.add_url_rule("/style.css", "style_sheet", lambda: Response(style(), mimetype="text/css"))
        app.add_url_rule("/nights/<name>", "night", self.night)
        app.add_url_rule("/runs", "run_list", self.run_list)
        app.add_url_rule("/runs/<path:run>", "run", self.run)
        app.add_url_rule("/reports/<path:run>", "report", self.report)
        app.add_url_rule("/side-by-side", "side_by_side", self.side_by_side)
        app.add_url_rule("/trends", "trend_list", self.trend_list)
        app.add_url_rule("/trend", "trend", self.trend)

    def _outcome_of(self, row: RunRow) -> str | None:
        return self._known.outcome_of(row)

    def home(self) -> str:
        """The calendar of nights, and the newest runs that did not pass."""
        shown = stored_nights(self._store.path)
        tops = self._listed(RunFilter())
        failing = [row for row in tops if row.outcome in ("failed", "unknown")][:NEWEST]
        return _page(
            "home.html.j2",
            latest=shown[-1] if shown else None,
            months=months(shown),
            failing=failing,
            total=len(tops),
            store=self._store.path,
            outcome_of=self._outcome_of,
        )

    def night(self, name: str) -> str:
        """The summary of a night, as far as it has come."""
        stored = {night.name: night for night in nights(self._store.path)}
        if name not in stored:
            raise NotFound(f"There is no night {name}.")
        summary = summary_of(stored[name], self._store.path, outcome_of=self._known.outcome_of)
        rows = self._store.rows()
        reports = {job.run: self._report_url(rows[job.run]) or "" for job in summary.jobs if job.run in rows}
        earlier = [other for other in stored if other < name]
        return _page(
            "night.html.j2",
            **page_values(summary.with_reports(reports)),
            previous=earlier[-1] if earlier else None,
        )

    def _listed(self, wanted: RunFilter) -> list[RunRow]:
        """The runs and reproductions that match, newest first; not the runs of which a reproduction consists."""
        return [row for row in reversed(self._store.rows().values()) if row.part_of is None and wanted.matches(row)]

    def run_list(self) -> str:
        """The runs, with search and filters."""
        wanted = RunFilter(
            system=_asked("system"),
            workload=_asked("workload"),
            fault=_asked("fault"),
            verdict=_asked("verdict"),
            status=_asked("status"),
            night=_asked("night"),
            text=_asked("text"),
        )
        query = {name: value for name, value in asdict(wanted).items() if value}
        rows = self._listed(wanted)
        pages = max(1, -(-len(rows) // PAGE_ROWS))
        page = min(max(1, request.args.get("page", 1, type=int)), pages)
        return _page(
            "runs.html.j2",
            rows=rows[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
            wanted=wanted,
            choices=self._choices(),
            total=len(rows),
            page=page,
            pages=pages,
            query=query,
            outcome_of=self._outcome_of,
        )

    def _choices(self) -> dict[str, list[str]]:
        """What each filter can be set to."""
        rows = [row for row in self._store.rows().values() if row.part_of is None]
        values = {
            "system": {name for row in rows for name in (row.system, row.family)},
            "workload": {row.scenario or row.workload for row in rows},
            "fault": {fault for row in rows for fault in row.faults or ()},
            "verdict": {row.verdict for row in rows},
            "status": {row.status for row in rows},
            "night": {row.night for row in rows if row.night},
        }
        return {name: sorted(found, reverse=name == "night") for name, found in values.items()}

    def _row(self, name: str) -> RunRow:
        """Raises NotFound."""
        row = self._store.rows().get(name)
        if row is None:
            raise NotFound(f"There is no run {name}.")
        return row

    def _directory(self, row: RunRow) -> RunDirectory:
        return RunDirectory(self._store.path.absolute() / row.run)

    def _report_url(self, row: RunRow) -> str | None:
        return url_for("report", run=row.run) if self._directory(row).report.is_file() else None

    def run(self, run: str) -> str:
        """What the table of the store has of a run."""
        row = self._row(run)
        quantities = [
            Quantity("", name, value, "ms" if is_time(name) else "") for name, value in row.quantities.items()
        ]
        return _page(
            "run.html.j2",
            row=row,
            outcome=self._outcome_of(row),
            report=self._report_url(row),
            parts=[each for each in self._store.rows().values() if each.part_of == row.run],
            quantities=shown_quantities(quantities),
            outcome_of=self._outcome_of,
        )

    def report(self, run: str) -> Response:
        """A run's report, as it is on disk."""
        report = self._directory(self._row(run)).report
        try:
            content = report.read_bytes()
        except OSError as error:
            raise NotFound(f"{run} has no report.") from error
        return Response(content, mimetype="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    def side_by_side(self) -> str:
        """Two runs on one time axis."""
        from harness.judging.runs import side_of
        from results.run_verdict import read_verdict

        names = request.args.getlist("run")
        if len(names) != 2:
            raise BadRequest(f"Expected two runs, found {len(names)}. Pick two in the list of runs.")
        rows = [self._row(name) for name in names]
        for row in rows:
            if row.kind != "run" or row.outcome is None or not self._directory(row).history.exists():
                raise BadRequest(f"Expected runs that were judged and are still stored, found {row.run}.")
        directories = [self._directory(row) for row in rows]
        sides = [
            side_of(directory, read_verdict(directory.verdict), str(number))
            for number, directory in enumerate(directories, 1)
        ]
        return _page(
            "side_by_side.html.j2",
            rows=rows,
            picture=timelines(sides),
            charts=load_charts(sides),
            quantities=list(quantities_side_by_side(*sides)),
            outcome_of=self._outcome_of,
        )

    def _trends(self) -> list[Trend]:
        return trends(self._store.rows().values(), self._known)

    def trend_list(self) -> str:
        """All cases over time."""
        return _page("trends.html.j2", trends=self._trends())

    def trend(self) -> str:
        """A case over time."""
        key = tuple(request.args.get(name, "") for name in ("case", "system", "variant"))
        found = next((each for each in self._trends() if (each.case, each.system, each.variant) == key), None)
        if found is None:
            raise NotFound(f"No judged run is {' '.join(filter(None, key)) or 'of no case'}.")
        of_quantities = [
            chart_markup(title_of(name), name, quantity_points(found, name, self._runs_url)) for name in measured(found)
        ]
        pictures = [chart_markup("failures", None, failure_points(found, self._runs_url)), *of_quantities]
        newest = [row for column in reversed(found.columns) for row in reversed(column.rows)][:NEWEST]
        return _page("trend.html.j2", trend=found, pictures=pictures, rows=newest, outcome_of=self._outcome_of)

    def _runs_url(self, column: Column) -> str:
        """Where the runs of a column are shown."""
        if column.night:
            return url_for("night", name=column.night)
        return url_for("run", run=column.rows[-1].run)
