// Notify: a word on the desktop when something waits for the person and the page is not looked at. Only when asked for.

const KEY = "inboxd notifications";

function wanted() {
  try {
    return localStorage.getItem(KEY) === "on" && Notification.permission === "granted";
  } catch {
    return false;
  }
}

function say(event) {
  const from = (event.sender ?? "").replace(/^task:/, "");
  if (event.type === "task_message_queued" && event.task === "user") {
    const asks = { question: "asks", help_request: "asks for help", result: "reports", answer: "answers" }[event.kind] ?? "writes to you";
    return { title: `${from} ${asks}`, tag: event.message_id, url: "/inbox" };
  }
  if (event.type === "task_state_changed" && event.state === "waiting") return { title: `${event.task} asks for a permission`, tag: `waits ${event.task}`, url: "/attention" };
  if (event.type === "thread_blocked") return { title: `${event.agent ?? "A thread"} is blocked`, tag: `thread ${event.thread_id}`, url: `/threads/${event.thread_id}` };
  if (event.type === "task_message_dead") return { title: `${event.task} has a dead letter`, tag: event.message_id, url: "/attention" };
  return null;
}

function hear({ detail }) {
  if (!wanted() || document.hasFocus()) return;
  const said = say(detail);
  if (!said) return;
  // The same tag in every tab: however many are open, it is said once.
  const notice = new Notification(said.title, { tag: said.tag, body: detail.priority === "urgent" ? "Urgent" : "" });
  notice.onclick = () => {
    window.focus();
    location.assign(said.url);
    notice.close();
  };
}

export function start() {
  const button = document.getElementById("notify");
  if (!("Notification" in window) || !isSecureContext) return;
  const show = () => button.setAttribute("aria-pressed", String(wanted()));
  button.hidden = false;
  button.addEventListener("click", async () => {
    const on = !wanted() && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(KEY, on ? "on" : "off");
    show();
  });
  show();
  document.addEventListener("inbox-event", hear);
}
