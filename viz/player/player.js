"use strict";
(() => {
  const PACE = 1800; // milliseconds between steps while it plays
  const find = (id) => document.getElementById(id);
  const { blank, steps } = JSON.parse(find("data").textContent);
  const last = steps.length - 1;
  const player = find("player"), graph = find("graph"), scrubber = find("scrubber");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const nodes = new Map(), edges = new Map(), texts = new Map();
  for (const group of graph.querySelectorAll("[data-node], [data-edge]")) {
    const isNode = "node" in group.dataset;
    const place = Number(isNode ? group.dataset.node : group.dataset.edge);
    (isNode ? nodes : edges).set(place, group);
    for (const text of group.querySelectorAll("[data-row]"))
      texts.set(text.dataset.row + place, text);
  }
  const framed = window.parent !== window; // then the address and the history are another page's
  let now = 0, timer = 0, saving = 0;

  // The picture

  function write([row, place, text, faulty], changed) {
    const element = texts.get(row + place);
    if (!element) return;
    element.textContent = text;
    element.setAttribute("class", (faulty ? "faulty " : "") + (changed ? "changed" : ""));
    if (!faulty) element.removeAttribute("fill");
  }

  function paint(step) {
    blank.forEach((show) => write(show, false));
    for (let i = 0; i <= now; i += 1) steps[i].shows.forEach((show) => write(show, i === now));
    for (const [place, group] of nodes) {
      group.classList.toggle("works", place === step.node);
      group.classList.toggle("gets", place === step.target && place !== step.node);
    }
    for (const [place, group] of edges) group.classList.toggle("moves", step.edges.includes(place));
  }

  function lookAt(step) {
    const frame = graph.getBoundingClientRect();
    const boxes = [step.target, step.node]
      .filter((place) => place !== null)
      .map((place) => nodes.get(place).getBoundingClientRect());
    if (boxes.length === 0) return;
    let box = {
      left: Math.min(...boxes.map((b) => b.left)), right: Math.max(...boxes.map((b) => b.right)),
      top: Math.min(...boxes.map((b) => b.top)), bottom: Math.max(...boxes.map((b) => b.bottom)),
    };
    if (box.right - box.left > frame.width || box.bottom - box.top > frame.height) box = boxes[0];
    const off = (low, high, from, to) =>
      low >= from && high <= to ? 0 : (low + high) / 2 - (from + to) / 2;
    graph.scrollBy({
      left: off(box.left, box.right, frame.left, frame.right),
      top: off(box.top, box.bottom, frame.top, frame.bottom),
      behavior: still.matches ? "auto" : "smooth",
    });
  }

  // The words

  function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  }

  function tell(step) {
    const where = `${step.name}, step ${now} of ${last}`;
    find("where").textContent = where;
    find("says").textContent = step.says;
    find("details").replaceChildren(
      ...step.details.flatMap(([name, text]) => {
        const definition = document.createElement("dd");
        definition.append(element("pre", text));
        return [element("dt", name), definition];
      }),
    );
    const [place, code] = step.site;
    find("site").replaceChildren(
      ...(place ? [`made in ${place}`, element("code", code)] : []),
    );
    scrubber.value = String(now);
    scrubber.setAttribute("aria-valuetext", where);
    for (const [id, end] of [["first", 0], ["back", 0], ["next", last], ["last", last]])
      find(id).setAttribute("aria-disabled", String(now === end));
    document.querySelector("tr[aria-current]")?.removeAttribute("aria-current");
    find(`row-${now}`).setAttribute("aria-current", "step");
    player.dataset.phase = step.phase;
    player.dataset.step = String(now);
    player.dataset.exact = step.exact;
  }

  // Going from step to step

  function go(n) {
    now = Math.min(Math.max(n, 0), last);
    paint(steps[now]);
    tell(steps[now]);
    lookAt(steps[now]);
    if (framed) return;
    clearTimeout(saving); // the address follows at leisure: it must not change too often
    saving = setTimeout(() => history.replaceState(null, "", `#step-${now}`), 300);
  }

  function play(on) {
    clearInterval(timer);
    timer = 0;
    if (on) {
      if (now === last) go(0);
      timer = setInterval(() => (now < last ? go(now + 1) : play(false)), PACE);
    }
    find("run").textContent = on ? "Pause" : "Play";
  }

  function jump(n) {
    play(false);
    go(n);
  }

  find("first").addEventListener("click", () => jump(0));
  find("back").addEventListener("click", () => jump(now - 1));
  find("next").addEventListener("click", () => jump(now + 1));
  find("last").addEventListener("click", () => jump(last));
  find("run").addEventListener("click", () => play(!timer));
  scrubber.addEventListener("input", () => jump(Number(scrubber.value)));

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.shiftKey && sideways) graph.scrollBy({ left: 120 * sideways });
    else if (sideways) jump(now + sideways);
    else if (event.key === "Home") jump(0);
    else if (event.key === "End") jump(last);
    else if (event.key === " " && !event.target.closest("button, a")) play(!timer);
    else return;
    event.preventDefault();
  });

  function fromAddress() {
    const found = /^#step-(\d+)$/.exec(location.hash);
    return found ? Number(found[1]) : null;
  }
  function visit(n) {
    jump(n);
    player.scrollIntoView({ behavior: still.matches ? "auto" : "smooth" });
  }
  addEventListener("hashchange", () => {
    const n = fromAddress();
    if (n !== null) visit(n);
  });
  if (framed)
    find("all").addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link) return;
      event.preventDefault();
      visit(Number(link.textContent));
    });

  // On paper the picture is that of the last step.
  let before = 0;
  addEventListener("beforeprint", () => { before = now; now = last; paint(steps[last]); });
  addEventListener("afterprint", () => { now = before; paint(steps[now]); });

  go(fromAddress() ?? 0);
})();
