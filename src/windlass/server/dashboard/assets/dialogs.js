// Dialogs: a question before something is changed, and the list of keys.
import { h } from "./dom.js";

const dialog = document.getElementById("dialog");

// Resolves to false, or after the action to true, or to the text of `input` if there is one.
export function confirmDialog(question, detail, action, input = null) {
  return new Promise((resolve) => {
    const answer = (yes) => () => { if (yes && input && !input.reportValidity()) return; dialog.close(); resolve(yes && input ? input.value : yes); };
    const no = h("button", { type: "button", on: { click: answer(false) } }, "Keep it as it is");
    dialog.replaceChildren(h("h2", {}, question), h("p", {}, detail), ...(input ? [h("p", { class: "asked" }, input)] : []),
      h("div", { class: "buttons" }, no, h("button", { type: "button", class: "danger", on: { click: answer(true) } }, action)));
    dialog.addEventListener("cancel", () => resolve(false), { once: true });
    dialog.showModal();
    (input ?? no).focus();
  });
}

// keys: those of pages, and of the present page, as [key, text].
export function helpDialog(ofPages) {
  const keys = [...ofPages, ["/", "Search"], ["j  k", "Next and previous job"],
    ["← ↑ ↓ →", "Cells of a map in focus"], ["+  −", "Zoom of a heat map in focus"],
    ["Tab", "Next link, field or button"], ["Enter", "Open or press it"], ["Esc", "Close a dialog or a part, leave a field"],
    ["t", "Dark or light"], ["?", "This list"]];
  const close = h("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  dialog.replaceChildren(h("h2", {}, "Keys"),
    h("dl", {}, keys.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])), h("div", { class: "buttons" }, close));
  dialog.showModal();
}
