// A classic script: browsers run no modules of a page that is opened as a file.
if (location.protocol === "file:") {
  document.getElementById("page").textContent =
    "Browsers run this page only from a server of files: in its folder, run python3 -m http.server, " +
    "then open http://localhost:8000.";
}
