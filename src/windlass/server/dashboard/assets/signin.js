// Sign-in with a token: a fetch, because a form of a page without referrer has no origin that could be checked.
const form = document.getElementById("form");
const token = document.getElementById("token");
const signedIn = document.getElementById("signed-in");
const trouble = document.getElementById("trouble");
let csrf = "";

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  trouble.textContent = "";
  const body = JSON.stringify({ token: token.value });
  const response = await send("/login", { "Content-Type": "application/json" }, body);
  if (response) location.replace(target());
});

document.getElementById("out").addEventListener("click", async () => {
  if (await send("/logout", { "X-Windlass-CSRF": csrf })) location.replace("/login");
});

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

const response = await fetch("/api/session", { cache: "no-store" });
if (response.ok) {
  const about = await response.json();
  csrf = about.csrf;
  document.getElementById("user").textContent = about.user;
  form.hidden = true;
  signedIn.hidden = false;
}
