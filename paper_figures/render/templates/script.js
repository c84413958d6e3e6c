// A link to a case opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target && target.closest("details");
  if (details) { details.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", openTarget);
addEventListener("beforeprint", () => document.querySelectorAll("details.claim").forEach((d) => { d.open = true; }));
