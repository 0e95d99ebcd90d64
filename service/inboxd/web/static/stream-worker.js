// One stream for all tabs of a session: a browser opens only six connections to a host, and a seventh tab would wait for ever.
// A tab that comes later is told what happened since its page was made.
import { Stream } from "./stream.js";

const KEPT_MAX = 1_000;
const tabs = new Set();
let stream = null;
let kept = []; // the last events, for tabs that come later
let from = 0; // everything behind this event is in `kept`

function tell(said) {
  if (said.kind === "event") {
    kept.push(said);
    if (kept.length > KEPT_MAX) from = kept.shift().id;
  } else if (said.kind === "reset") {
    kept = [];
    from = said.id;
  }
  for (const tab of tabs) tab.postMessage(said);
}

function join(port, { url, after }) {
  tabs.add(port);
  if (!stream || stream.state === "signed-out") {
    kept = [];
    from = after;
    stream = new Stream(url, after, tell);
    return;
  }
  if (stream.state) port.postMessage({ kind: "state", state: stream.state });
  if (after < from) return port.postMessage({ kind: "reset" });
  for (const said of kept) if (said.id > after) port.postMessage(said);
}

addEventListener("connect", ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.kind === "join") join(port, data);
    else if (data.kind === "retry") stream?.retry();
    else if (data.kind === "leave") {
      tabs.delete(port);
      if (!tabs.size && stream) {
        stream.close();
        stream = null;
      }
    }
  };
});
