// In the report's dialog, Escape closes it also while the focus is in here.
if (parent !== window) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") parent.postMessage("close", "*");
  });
}
