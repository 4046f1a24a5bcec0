// Shows the description of the APIs in the theme of all pages. Swagger UI is loaded before this file.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });

const darkness = matchMedia("(prefers-color-scheme: dark)");

function followTheme() {
  const { classList, dataset } = document.documentElement;
  classList.toggle("dark-mode", dataset.theme ? dataset.theme === "dark" : darkness.matches);
}

darkness.addEventListener("change", followTheme);
new MutationObserver(followTheme).observe(document.documentElement, { attributeFilter: ["data-theme"] });
followTheme();
