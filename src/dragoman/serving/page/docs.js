// Shows the description of the APIs. Swagger UI is loaded before this file.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
