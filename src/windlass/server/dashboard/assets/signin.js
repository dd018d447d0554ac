// Sign-in with a token, or with the one-time link of the command line: a fetch, because a form of a page without referrer has no origin that could be checked.
const form = document.getElementById("form");
const token = document.getElementById("token");
const signedIn = document.getElementById("signed-in");
const trouble = document.getElementById("trouble");
let csrf = "";

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  trouble.textContent = "";
  if (await signIn({ token: token.value })) location.replace(target());
});

document.getElementById("out").addEventListener("click", async () => {
  if (await send("/logout", { "X-Windlass-CSRF": csrf })) location.replace("/login");
});

function signIn(body) {
  return send("/login", { "Content-Type": "application/json" }, JSON.stringify(body));
}

async function send(path, headers, body) {
  try {
    const response = await fetch(path, { method: "POST", headers, body, cache: "no-store" });
    if (response.ok) return response;
    trouble.textContent = await response.text();
  } catch (error) {
    trouble.textContent = `The operator does not answer: ${error.message}`;
  }
  return null;
}

// The page of this site that the address names.
function target() {
  const found = new URL(new URLSearchParams(location.search).get("to") || "/", location.origin);
  return found.origin === location.origin ? found.pathname + found.search + found.hash : "/";
}

// Names the user of a link and asks, because the link of another user would show that user's jobs.
async function openLink(code) {
  history.replaceState(null, "", location.pathname);
  const response = await signIn({ code });
  if (!response) return;
  document.getElementById("maker").textContent = (await response.json()).user;
  document.getElementById("continue").addEventListener("click", async () => {
    if (await signIn({ code, confirmed: true })) location.replace("/");
  });
  form.hidden = true;
  document.getElementById("link").hidden = false;
}

async function showSession() {
  const response = await fetch("/api/session", { cache: "no-store" });
  if (!response.ok) return;
  const about = await response.json();
  csrf = about.csrf;
  document.getElementById("user").textContent = about.user;
  form.hidden = true;
  signedIn.hidden = false;
}

const code = new URLSearchParams(location.search).get("code");
await (code ? openLink(code) : showSession());
