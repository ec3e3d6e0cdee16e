// The search of this site runs in a worker, which browsers refuse to pages that are opened from a file. Here a frame stands in for one.
if (location.protocol === "file:") window.IFrameWorker = window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe"), script = document.createElement("script");
    frame.hidden = true;
    document.body.append(frame);
    const inner = frame.contentWindow;
    inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
    this.ready = new Promise(done => { script.onload = done; });
    this.postMessage = data => this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", {data})));
    script.src = new URL(url, document.baseURI);
    inner.document.body.append(script);
  }
  terminate() {}
};
// Tables and formulas that are wider than the page scroll, and a keyboard has to reach them.
addEventListener("load", () => {
  const reach = () => document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach(each => { each.tabIndex = 0; });
  reach();
  document.querySelectorAll("p:has(> math)").forEach(each => { if (each.scrollWidth > each.clientWidth) each.tabIndex = 0; });
  new MutationObserver(reach).observe(document.body, {childList: true, subtree: true});
});
// What a reader of a notebook guessed stands beside the measurement once the answer is open.
{
  const number = text => parseFloat(text.replaceAll(",", "").replace("\u2212", "-")), nan = Number.isNaN;
  const compare = answer => {
    const field = answer.previousElementSibling?.querySelector(".guess input"), rows = [...answer.querySelectorAll("tr")];
    const of = name => [...(rows.find(row => row.cells[0].textContent === name)?.cells ?? [])];
    const mine = of("your guess"), guess = parseFloat(field?.value), off = Math.abs(guess - number(of("measured")[1]?.textContent ?? ""));
    if (!field || !mine.length) return;
    const theory = number(of("theory")[2]?.textContent ?? "");
    mine[1].textContent = nan(guess) ? "\u2014" : `${guess}`.replace("-", "\u2212");
    mine[2].textContent = nan(off) ? "" : `${+off.toPrecision(2)}`;
    mine[3].textContent = nan(off) ? "none entered" : nan(theory) ? "" : off < theory ? "you are nearer" : off > theory ? "theory is nearer" : "as near as theory";
  };
  document.addEventListener("toggle", event => { if (event.target.open) compare(event.target); }, true);
  document.addEventListener("keydown", event => {
    const answer = event.key === "Enter" && event.target.closest(".guess")?.nextElementSibling;
    if (answer) { answer.open = true; compare(answer); }
  });
  document.addEventListener("input", event => { const answer = event.target.closest(".guess")?.nextElementSibling; if (answer?.open) compare(answer); });
}
// On a phone a picture that is wider than the page says "swipe" until one has come to its end.
addEventListener("load", () => document.querySelectorAll("a.picture").forEach(each => {
  const seen = () => each.parentElement.classList.toggle("ended", each.scrollLeft + each.clientWidth > each.scrollWidth - 8);
  each.addEventListener("scroll", seen);
  addEventListener("resize", seen);
  seen();
}));
