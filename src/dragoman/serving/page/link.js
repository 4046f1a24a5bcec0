// A link to the page with a text. It is after the #, which a browser sends to no server.

const MAX_LENGTH = 8000; // characters that programs keep of an address

/** The address, or null for a text that is too long. */
export function linkTo({ text, source, target }) {
  const address = new URL(location.href);
  address.hash = new URLSearchParams({ text, source, target });
  return address.href.length > MAX_LENGTH ? null : address.href;
}

/** What the page's address says, {text, source, target}, or null. It then says it no longer: a reload would
 * bring the text back after it has changed. */
export function takeLink() {
  const { text, source, target } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!text) return null;
  window.history.replaceState(null, "", location.pathname + location.search);
  return { text, source, target };
}
