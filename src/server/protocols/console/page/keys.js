// Keys as requests have them. Pure functions.

/** Why a text is no key; empty where it is one. */
export function problemOfKey(text) {
  if (text === "") return "A key has at least one character.";
  // A browser sends no header with some of them, and no server accepts the others.
  return /[\u0000-\u001f\u007f]/.test(text) ? "A key has no control characters." : "";
}

/** The header Authorization with a key. Its characters are the bytes of the header. */
export function authorizationOf(key) {
  return `Bearer ${String.fromCharCode(...new TextEncoder().encode(key))}`;
}
