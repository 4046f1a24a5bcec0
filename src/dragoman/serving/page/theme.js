// Applies the chosen theme before the first paint. A classic script: modules run after it.
try {
  const theme = localStorage.getItem("dragoman.theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the system's theme.
}
