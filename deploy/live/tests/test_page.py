"""Black box, by a browser: what a visitor sees, and what three clicks do."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from statistics import median

import psutil
import pytest

from deploy.env_file import read_env_file
from deploy.live.tests.browser import INSTALL, browser, missing
from deploy.loopback import ask_json
from deploy.plan import ROOT
from deploy.processes import tree
from deploy.tests.fixtures import absent
from deploy.tests.waiting import DIRECT, end, get, until
from deploy.welcome import ADDRESS

# Alone: what a person sees within seconds is late on a machine that starts four deployments.
pytestmark = [pytest.mark.deployment, pytest.mark.alone]

# Seconds for a start on a slow machine; one that has failed is told at once.
PATIENT = 300
# The carrier that the page's load uses most.
CARRIER, TITLE = "colibri", "Colibri Express"
# So that a hang is a failed call, and ten of them a breaker's reason, within a test's patience.
CALL_DEADLINE = "5"
MANY = 10_000
# The least that ten thousand moving dots cost a browser: what else the machine does slows both.
PLAIN = f"""data:text/html,<canvas width=1372 height=420></canvas><script>
    const canvas = document.querySelector("canvas").getContext("2d");
    let turn = 0;
    const step = () => {{
      canvas.clearRect(0, 0, 1372, 420);
      for (let n = 0; n < {MANY}; n++) canvas.fillRect((7 * n + turn) % 1372, n % 420, 2.5, 2.5);
      turn += 1;
      requestAnimationFrame(step);
    }};
    step();
</script>"""
# Of the plain page's frames: at a third of sixty a second things still glide.
USABLE = 1 / 3
# The page's own figures, but ten thousand are held; returns a look at frames drawn and dots.
CROWD = f"""
    const page = window.live, show = page.show.bind(page);
    page.show = () => {{}};
    const figures = structuredClone(page.figures);
    figures.targets[0].holds = figures.targets[0].clients.open = {MANY};
    show(figures);
    const diagram = [...page.stacks.values()][0].diagram, before = diagram.drawn;
    return () => [diagram.drawn - before, diagram.dots];
"""
# The page's own figures, but the first server refuses connections.
REFUSED = """
    const page = window.live, show = page.show.bind(page);
    page.show = () => {};
    const figures = structuredClone(page.figures);
    figures.targets[0].canary = null;
    show(figures);
    delete page.show;
    const answer = document.querySelector(".answers .other");
    return [answer.querySelector("dd").textContent, answer.classList.contains("bad")];
"""
# The page's own figures, but nothing bounds the server's workers, and some clients wait.
UNBOUNDED = """
    const page = window.live, show = page.show.bind(page);
    page.show = () => {};
    const figures = structuredClone(page.figures), first = figures.targets[0];
    [first.slots, first.waiting, first.at_door] = [null, 3, 3];
    show(figures);
    delete page.show;
    const answers = [".stuck", ".waiting"].map(name => document.querySelector(`.answers ${name}`));
    return answers.some(each => each.matches(".bad, .warns"));
"""
# A page that never gets its figures.
SILENT = "window.EventSource = class {}"
# Each frame is drawn eighty times.
CLUMSY = """
    const clumsy = [...window.live.stacks.values()][0].diagram, draw = clumsy.draw.bind(clumsy);
    clumsy.draw = () => { for (let n = 0; n < 80; n++) draw(); clumsy.drawn -= 79; };
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    if lacking := missing():
        absent(lacking, INSTALL)
    folder = tmp_path_factory.mktemp("live")
    environment = {name: value for name, value in os.environ.items() if name != "DEBUG"}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            ["make", "run", f"RUN_DIR={folder / 'run'}"],
            cwd=ROOT,
            env={**environment, "CARRIER_CALL_DEADLINE": CALL_DEADLINE, "CI": ""},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    try:
        told = until(lambda: read_env_file(folder / "run" / "demo.env"), "demo.env", PATIENT)
        yield told | {"pid": process.pid}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        end(process)


@pytest.fixture(scope="module")
def page(run):
    with browser() as driver:
        driver.get(run["LIVE_URL"])
        shown(driver)
        yield driver


def shown(driver):
    until(lambda: driver.find_elements("css selector", "[data-carrier]"), "the first figures")


def words(driver, selector):
    return driver.execute_script(f"return document.querySelector({selector!r})?.textContent")


def row(selector):
    return f'[data-carrier="{CARRIER}"] {selector}'


def has(driver, selector):
    return bool(driver.find_elements("css selector", selector))


def click(driver, selector):
    driver.find_element("css selector", selector).click()


def figures(driver):
    return driver.execute_script("return window.live.figures.targets[0]")


def test_the_apps_address_leads_to_the_page(run):
    with DIRECT.open(run["BASE_URL"], timeout=10) as answer:
        assert answer.url == f"{run['LIVE_URL']}/"


def test_a_first_visit_leads_to_a_collapse_in_three_clicks(page):
    """Each is a numbered button, and what happens is said in words and to screen readers."""
    assert [words(page, f"#{step}") for step in ("traffic", "compare", "break")] == [
        "Start traffic",
        "Compare with",
        "Hang Colibri Express",
    ]
    assert has(page, "#bar.first")
    click(page, "#traffic")
    click(page, "#compare")
    until(lambda: has(page, ".stack:nth-child(2), #said.bad"), "a second deployment", PATIENT)
    assert words(page, "#said") == ""  # else why it did not start
    until(lambda: not has(page, ".other.bad"), "answers of both", 60)
    click(page, "#break")
    until(lambda: words(page, "#announced").startswith(f"{TITLE} hangs, "), "the outage in words")
    until(
        lambda: (
            has(page, ".stack:nth-child(2) .other.bad")
            and words(page, ".stack:nth-child(2) .stuck dd") == "5 of 5"
            and not has(page, ".stack:nth-child(1) .other.bad")
        ),
        "the collapse on one side",
        60,
    )
    assert "uwsgi-prefork" in words(page, "#state")
    click(page, "#break")
    until(lambda: not has(page, "tr.bad"), "the end of the outage")
    click(page, "#compare")
    until(lambda: not has(page, ".stack:nth-child(2)"), "one deployment", 60)
    page.refresh()
    shown(page)
    assert not has(page, "#bar.first")
    until(lambda: words(page, row(".calls")).startswith("normal"), "calls again", 60)


def test_an_outage_by_a_click_pauses_calls_and_leaves_other_pages_alone(page):
    until(lambda: figures(page)["clients"]["labels"] > 5, "labels")
    click(page, row('[data-kind="hang"]'))
    copied = shlex.split(page.find_element("id", "copy").get_attribute("title"))
    here = {**os.environ, "NO_PROXY": "*"}
    assert subprocess.check_output(copied, cwd=ROOT, env=here) == b'{"stacks":1}'
    until(
        lambda: "waits" in words(page, row(".now")) or "wait," in words(page, row(".now")),
        "who waits",
    )
    looks = []

    def paused():
        looks.append(figures(page))
        return words(page, row(".calls")).startswith("paused")

    until(paused, "the open breaker", 60)
    # A held request costs no worker: the cheap read doesn't wait for a carrier's deadline. The
    # median, since single looks also show what else this machine was busy with.
    assert median(look["canary"] for look in looks) < float(CALL_DEADLINE) / 5
    assert median(look["serving"] for look in looks) < looks[0]["slots"] / 2
    assert max(look["holds"] for look in looks) > 0
    click(page, row('[data-kind="end"]'))
    until(lambda: words(page, row(".calls")).startswith("normal"), "the closed breaker", 60)
    until(lambda: not has(page, "tr.bad"), "the end in the table")


def test_the_figures_are_the_simulators_own(page, run):
    """Once all is quiet: each call that it counts, and each label that it sold."""
    click(page, "#traffic")

    def same():
        carriers = json.loads(get(f"{run['SIMULATOR_URL']}/carriers"))["carriers"]
        now = figures(page)
        return (
            now["to_come"] == 0
            and {one["code"]: one["calls"] for one in carriers}
            == {code: one["calls"] for code, one in now["carriers"].items()}
            and sum(one["booked"] for one in carriers) == now["announced"] > 0
        )

    until(same, "the simulator's figures on the page", 90)


def test_a_server_that_refuses_connections_is_red(page):
    assert page.execute_script(REFUSED) == ["no answer", True]


def test_who_waits_at_a_server_without_bound_is_no_trouble(page):
    assert page.execute_script(UNBOUNDED) is False


def words_of(process):
    """Return a process' command line; none where it has just ended, and nobody has heard of it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def test_the_figures_dim_while_their_feed_is_lost(page, run):
    """The live page's process is killed; what starts all starts it again."""
    (live,) = (one for one in tree(run["pid"]) if "deploy.live" in words_of(one))
    live.kill()
    until(lambda: "last seen at" in words(page, "#state"), "the lost feed")
    assert has(page, "main.lost")
    until(lambda: not has(page, "main.lost"), "the feed again", 60)


def test_the_controls_work_by_keyboard(page):
    load = "return window.live.figures.load.rate"
    knob = page.find_element("css selector", "#rate")
    before = int(knob.get_attribute("value"))
    page.find_element("css selector", "#traffic").send_keys("\ue007")  # enter
    until(lambda: page.execute_script(load) == before, "traffic")
    knob.send_keys("\ue014")  # the right arrow
    until(lambda: page.execute_script(load) == before + 1, "one parcel a second more")
    click(page, "#traffic")
    until(lambda: page.execute_script(load) == 0, "no traffic")


def test_traffic_starts_before_the_first_figures(page, run):
    load = "return window.live.figures.load.rate"
    assert page.execute_script(load) == 0  # the test above has ended it
    with browser() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SILENT})
        driver.get(run["LIVE_URL"])
        until(lambda: driver.execute_script("return Boolean(window.live)"), "the page")
        click(driver, "#traffic")
        until(lambda: page.execute_script(load) > 0, "traffic")
    click(page, "#traffic")
    until(lambda: page.execute_script(load) == 0, "no traffic")


def test_each_control_can_be_reached_and_has_a_name(page):
    unnamed = page.execute_script("""
        return [...document.querySelectorAll("button, input, select")]
          .filter(each => each.offsetParent && (each.tabIndex < 0 ||
            !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length)))
          .map(each => each.outerHTML)
    """)
    assert unnamed == []


def frames(driver, url, prepare=""):
    """Return the frames that the browser shows in three seconds, and what `prepare` looks at."""
    driver.get(url)
    if url != PLAIN:
        shown(driver)
    return driver.execute_async_script(f"""
        const done = arguments[0];
        const look = (() => {{ {prepare or "return () => 0"} }})();
        let shown = 0, began;
        const count = now => {{
          began ??= now;
          if (now - began < 3000) {{ shown += 1; requestAnimationFrame(count); }}
          else done([shown, look()]);
        }};
        requestAnimationFrame(count);
    """)


def glides(driver, url, prepare):
    """Say whether the page shows a usable part of the frames that a plain one does, median of 3."""
    shares = []
    for _ in range(3):
        plain, _ = frames(driver, PLAIN)
        full, (drawn, dots) = frames(driver, url, prepare)
        assert dots >= MANY
        # Frames in which the dots moved, not only those that the browser showed.
        shares.append(min(full, drawn) / plain)
    return median(shares) > USABLE


def test_ten_thousand_parcels_in_the_air_are_smooth(run):
    """The page's own figures, with ten thousand held; every dot is there and moves."""
    with browser() as driver:
        assert glides(driver, run["LIVE_URL"], CROWD)


def test_a_page_that_jumps_is_told_from_one_that_glides(run):
    """The control: the same page, wasteful."""
    with browser() as driver:
        assert not glides(driver, run["LIVE_URL"], CLUMSY + CROWD)


def test_nothing_was_blocked_or_thrown(page):
    """But for the feed, which a test above has cut."""
    severe = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry for entry in severe if "/events" not in entry["message"]] == []


def test_on_a_phone_nothing_sticks_out(run):
    """Nor on the page of a shop's customer, where a status has a long name, nor on the API's."""
    order = {"parcel": {**ADDRESS, "request_label": True, "shipment": {"id": 8}}}
    login = f"{run['PUBLIC_KEY']}:{run['SECRET_KEY']}"
    parcel = ask_json(f"{run['BASE_URL']}/api/v2/parcels", order, login=login)["parcel"]
    with browser(390, 844, dark=True) as driver:
        driver.get(run["LIVE_URL"])
        shown(driver)
        answers = driver.find_element("css selector", ".answers").rect
        widths = [driver.execute_script("return document.documentElement.scrollWidth")]
        driver.get(parcel["tracking_url"])
        widths += [
            driver.execute_script("""
            document.querySelector("td:last-child").textContent = "Shipment collected by customer";
            return document.documentElement.scrollWidth;
        """)
        ]
        driver.get(f"{run['BASE_URL']}/api/v2/docs")
        until(lambda: "customs union" in (words(driver, "body") or ""), "the API's groups")
        tags = driver.find_elements("css selector", ".opblock-tag")
        tallest = max(tag.rect["height"] for tag in tags)
    assert tallest < 150  # a name and its words, no column of letters
    assert max(widths) <= 390, widths
    assert answers["y"] + answers["height"] <= 844


def test_without_controls_there_are_none(run):
    """What another page's script would send is refused by the running process, too."""
    request = urllib.request.Request(f"{run['LIVE_URL']}/api/load", b'{"rate": 50}', method="POST")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        DIRECT.open(request, timeout=5)
    assert refusal.value.code == 403
    refusal.value.close()
    assert json.loads(get(f"{run['LIVE_URL']}/healthz")) == {"status": "ok"}
