// Acts: forms sent without leaving the page, and what came of it, said where one looks.

const UNREACHED = "The broker could not be reached. Nothing is lost: try again, it will not happen twice.";

export function toast(words, bad = false) {
  const box = document.getElementById("toasts");
  const one = document.createElement("p");
  one.className = bad ? "toast bad" : "toast";
  one.textContent = words;
  box.append(one);
  while (box.children.length > 3) box.firstElementChild.remove();
  setTimeout(() => one.remove(), bad ? 10_000 : 5_000);
}

// Send a form. Returns {ok, words, code}; on success the page is told which message it was about.
export async function post(form) {
  let response, answer;
  try {
    response = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
      signal: AbortSignal.timeout(20_000),
    });
    answer = await response.json();
  } catch {
    return { ok: false, words: UNREACHED, code: "" };
  }
  if (response.status === 401) {
    return { ok: false, words: "You are signed out. Your words are kept here: sign in again and send them.", code: "" };
  }
  if (!answer.ok) {
    const { message = "It did not work.", hint, code = "" } = answer.error ?? {};
    return { ok: false, words: [message, hint].filter(Boolean).join(" "), code };
  }
  toast(answer.note);
  const [, named] = /\/messages\/([^/]+)\//.exec(form.action) ?? [];
  const ids = [answer.message_id, named && decodeURIComponent(named), ...(answer.done ?? [])].filter(Boolean);
  const { task, thread_id } = answer;
  for (const message_id of ids) document.dispatchEvent(new CustomEvent("inbox-touch", { detail: { message_id, task, thread_id } }));
  return { ok: true, words: answer.note, code: "" };
}

async function submitted(event) {
  const form = event.target.closest?.("form[data-act]");
  if (!form) return;
  event.preventDefault();
  const button = event.submitter ?? form.querySelector("button");
  if (button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  const said = await post(form);
  button.removeAttribute("aria-busy");
  if (!said.ok) toast(said.words, true);
  else if ("reload" in form.dataset) location.reload();
}

export function start() {
  document.addEventListener("submit", submitted);
}
