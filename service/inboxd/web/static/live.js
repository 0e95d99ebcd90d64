// Live: what happens, told to this page. Elements listen for `inbox-event`, `inbox-reset`, `inbox-live` and `inbox-touch`
// on the document.
import { Stream } from "./stream.js";

const EVENTS = "/ui/events";
const WORDS = { live: "Live", lost: "Reconnecting", stopping: "Stopping", "signed-out": "Signed out" };
const BANNERS = {
  lost: "The broker cannot be reached. Trying again; nothing is missed.",
  stopping: "The broker is stopping. This page goes on when it is back.",
};
const COVER_MS = 400; // a reconnect shorter than this need not alarm anybody
let banner = 0;

function show(state) {
  const link = document.getElementById("link-state");
  link.dataset.state = state;
  link.querySelector(".link-words").textContent = WORDS[state];
  if (state === "live") document.dispatchEvent(new CustomEvent("inbox-live"));
  if (state === "signed-out") location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  clearTimeout(banner);
  const box = document.getElementById("banner");
  const said = BANNERS[state];
  if (!said) {
    box.hidden = true;
    return;
  }
  banner = setTimeout(() => {
    box.querySelector(".banner-words").textContent = said;
    box.hidden = false;
  }, state === "lost" && box.hidden ? COVER_MS : 0);
}

function hear(said) {
  if (said.kind === "state") show(said.state);
  else if (said.kind === "reset") document.dispatchEvent(new CustomEvent("inbox-reset"));
  else document.dispatchEvent(new CustomEvent("inbox-event", { detail: { ...said.event, id: said.id, type: said.type } }));
}

// A stream of this page's own, where tabs cannot share one.
function alone(after) {
  const stream = new Stream(EVENTS, after, hear);
  addEventListener("pagehide", () => stream.close());
  return () => stream.retry();
}

function together(after, worker, key) {
  const shared = new SharedWorker(worker, { type: "module", name: `inboxd ${key}` });
  const send = (said) => shared.port.postMessage(said);
  let retry = () => send({ kind: "retry" });
  shared.onerror = () => { retry = alone(after); };
  shared.port.onmessage = ({ data }) => hear(data);
  send({ kind: "join", url: EVENTS, after });
  addEventListener("pagehide", () => send({ kind: "leave" }));
  return () => retry();
}

export function start() {
  const { after, worker, key } = document.body.dataset;
  const retry = "SharedWorker" in window ? together(Number(after), worker, key) : alone(Number(after));
  addEventListener("online", retry);
  document.addEventListener("visibilitychange", () => document.hidden || retry());
  // Back from the browser's memory of pages: what happened meanwhile was told to nobody here.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}
