"""Text of users is shown as text: 60 payloads in every field that takes any text, and nothing runs on any page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.studio.browser import Studio, Watch
from tests.studio.conftest import OpenPage
from tests.studio.content import W, wait_for_run
from tests.studio.test_accessibility import settle

_CALL = "alert(1)"
PAYLOADS = (
    f"<script>{_CALL}</script>",
    f"<ScRiPt>{_CALL}</sCrIpT>",
    f'"><script>{_CALL}</script>',
    f"'><script>{_CALL}</script>",
    f"</title><script>{_CALL}</script>",
    f"</textarea><script>{_CALL}</script>",
    f"</style><script>{_CALL}</script>",
    f"</script><script>{_CALL}</script>",
    f"<script src=data:text/javascript,{_CALL}></script>",
    f"<scr<script>ipt>{_CALL}</scr</script>ipt>",
    f"<img src=x onerror={_CALL}>",
    f'"><img src=x onerror={_CALL}>',
    f'<img src=x onerror="{_CALL}" />',
    f"<img/src=x/onerror={_CALL}>",
    f'<img src=1 href=1 onerror="javascript:{_CALL}"></img>',
    f"<image src=1 onerror={_CALL}>",
    f"<svg onload={_CALL}>",
    f"<svg/onload={_CALL}>",
    f"<svg><script>{_CALL}</script></svg>",
    f"<svg><animate onbegin={_CALL} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{_CALL}"><text x=20 y=20>x</text></a>',
    f"<body onload={_CALL}>",
    f"<body onpageshow={_CALL}>",
    f"<video src=x onerror={_CALL}>",
    f'<video><source onerror="{_CALL}">',
    f"<audio src=x onerror={_CALL}>",
    f"<details open ontoggle={_CALL}>",
    f"<input autofocus onfocus={_CALL}>",
    f'" autofocus onfocus={_CALL} x="',
    f"' autofocus onfocus={_CALL} x='",
    f"<select autofocus onfocus={_CALL}>",
    f"<textarea autofocus onfocus={_CALL}>",
    f"<keygen autofocus onfocus={_CALL}>",
    f"<marquee onstart={_CALL}>",
    f"<iframe src=javascript:{_CALL}></iframe>",
    f'<iframe srcdoc="<script>parent.{_CALL}</script>"></iframe>',
    f"<object data=javascript:{_CALL}>",
    f"<embed src=javascript:{_CALL}>",
    f"<form><button formaction=javascript:{_CALL} autofocus>x</button></form>",
    f"<a href=javascript:{_CALL}>x</a>",
    f"javascript:{_CALL}",
    f"JaVaScRiPt:{_CALL}",
    f"javascript://%0a{_CALL}",
    f"data:text/html,<script>{_CALL}</script>",
    f"vbscript:{_CALL}",
    f"<base href=javascript:{_CALL}//>",
    f"<link rel=stylesheet href=data:text/css,*{{}}><script>{_CALL}</script>",
    f'<meta http-equiv=refresh content="0;url=javascript:{_CALL}">',
    f"<style>@import 'javascript:{_CALL}';</style>",
    f'<div style="background:url(javascript:{_CALL})">x</div>',
    f"<math><maction actiontype=statusline xlink:href=javascript:{_CALL}>x",
    f"<template><script>{_CALL}</script></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_CALL}>">',
    f"{{{{constructor.constructor('{_CALL}')()}}}}",
    f"${{{_CALL}}}",
    f"';{_CALL};//",
    f'\\";{_CALL};//',
    f"&lt;script&gt;{_CALL}&lt;/script&gt;",
    f"%3Cscript%3E{_CALL}%3C/script%3E",
    f"\u202e<script>{_CALL}</script>",
)
# Labels and descriptions refuse characters that change the direction of text.
LABELS = tuple(payload.replace("\u202e", "") for payload in PAYLOADS)
_SCRIPT = """
import json, os
from windlass import Run
run = Run.get_context()
for number, payload in enumerate(json.load(open("payloads.json"))):
    print(payload)
    safe = payload.replace("/", "|").replace("\\u202e", "")[:150]
    run.log(safe, number)
    run.log_list("list " + safe, [1, 2])
    run.log_table("table " + safe, {payload: [payload]})
    os.makedirs("outputs", exist_ok=True)
    name = safe.replace(":", " ").replace("\\\\", " ").replace("\\u202e", " ")
    with open(f"outputs/{number} {name}.txt", "w") as file:
        file.write(payload)
with open("outputs/page.html", "w") as file:
    file.write("<script>alert(1)</script>")
with open("outputs/picture.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>')
with open("outputs/table.csv", "w") as file:
    file.write("a,b\\n" + "<img src=x onerror=alert(1)>,=1+1\\n")
raise RuntimeError("<img src=x onerror=alert(1)>")
"""


@pytest.fixture(scope="module")
def attacked(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run that carries the payloads in all of its texts, and other things that carry one in each of theirs."""
    import json

    assert len(PAYLOADS) == 60
    folder: Path = tmp_path_factory.mktemp("payloads")
    (folder / "payloads.json").write_text(json.dumps(PAYLOADS))
    (folder / "train.py").write_text(_SCRIPT)
    tags = [option for number, payload in enumerate(LABELS) for option in ("--tag", f"t{number}={payload}")]
    done = studio("submit", "--json", "-e", "attacked", "-n", LABELS[10], *tags, "train.py", *PAYLOADS, cwd=folder)
    run = wait_for_run(studio, done.json["id"])
    studio.call("PATCH", f"{W}/runs/{run['id']}", {"description": "\n".join(LABELS), "tags": {LABELS[0]: LABELS[1]}})
    for number, payload in enumerate(LABELS):
        made = studio.call(
            "POST",
            f"{W}/runs",
            {"experiment": "attacked", "type": "interactive", "name": payload, "tags": {payload: payload}},
        )
        studio.call(
            "POST", f"{W}/runs/{made['id']}/end", {"state": "Failed", "error": {"code": "x", "message": payload}}
        )
        if number < 5:
            studio.call("PATCH", f"{W}/experiments/attacked", {"tags": {f"t{number}": payload}})
    definition = {
        "python": {"condaDependencies": {"dependencies": [{"pip": list(PAYLOADS)}]}},
        "docker": {"baseImage": LABELS[10]},
    }
    studio.call("POST", f"{W}/environments", {"name": "attacked", "definition": definition})
    model = {"name": "attacked", "run": run["id"], "path": "outputs", "description": LABELS[0],
             "framework": LABELS[10][:60], "tags": dict(zip(map(str, range(60)), LABELS, strict=True))}  # fmt: skip
    studio.call("POST", f"{W}/models", model)
    return {"run": run["id"], "some": made["id"]}


@pytest.mark.slow
def test_nothing_runs_on_any_page(open_page: OpenPage, studio: Studio, attacked: dict[str, Any], watch: Watch) -> None:
    run = f"{W}/runs/{attacked['run']}"
    tabs = ("overview", "logs", "metrics", "resources", "files", "code", "children", "attempts", "events")
    pages = [
        W, f"{W}/runs?experiment=attacked", f"{W}/experiments", f"{W}/experiments/attacked", f"{W}/models/attacked",
        f"{W}/models",
        f"{W}/environments/attacked", f"{W}/environments", f"{W}/audit", f"{W}/submit?from={attacked['run']}",
        f"{W}/compare?run={attacked['run']}&run={attacked['some']}", f"{W}/runs/{attacked['some']}",
        *(f"{run}?tab={tab}" for tab in tabs),
    ]  # fmt: skip
    page = open_page()
    for path in pages:
        page.goto(studio.url + path)
        settle(page)
    watch.check()


@pytest.mark.slow
def test_files_are_previewed_without_running(
    open_page: OpenPage, studio: Studio, attacked: dict[str, Any], watch: Watch
) -> None:
    page = open_page(f"{W}/runs/{attacked['run']}?tab=files")
    settle(page)
    for name in ("page.html", "picture.svg", "table.csv"):
        page.get_by_label("Filter Files of the run").fill(name)
        page.get_by_role("list", name="Files of the run").get_by_text(name).click()
        page.wait_for_timeout(300)
    watch.check()


@pytest.mark.slow
def test_addresses_with_payloads(open_page: OpenPage, studio: Studio, watch: Watch) -> None:
    from urllib.parse import quote

    watch.allow(400, 404)
    page = open_page()
    for payload in PAYLOADS[::4]:
        for path in (
            f"{W}/runs?search={quote(payload)}",
            f"{W}/runs/{quote(payload, safe='')}",
            f"/signin?next={quote(payload)}",
        ):
            page.goto(studio.url + path)
            page.wait_for_timeout(100)
    watch.check()
