// What the browser keeps: in localStorage until it is removed, in sessionStorage until the tab is closed.

/** The stored string, or null; also null where storage is switched off. */
export function recall(name) {
  return recallIn(() => localStorage, name);
}

/** Stores a string; null removes it. A full or disabled storage keeps nothing. */
export function store(name, value) {
  storeIn(() => localStorage, name, value);
}

export function recallInTab(name) {
  return recallIn(() => sessionStorage, name);
}

export function storeInTab(name, value) {
  storeIn(() => sessionStorage, name, value);
}

function recallIn(storage, name) {
  try {
    return storage().getItem(name);
  } catch {
    return null;
  }
}

function storeIn(storage, name, value) {
  try {
    if (value === null) storage().removeItem(name);
    else storage().setItem(name, value);
  } catch {
    // Nothing is kept.
  }
}
