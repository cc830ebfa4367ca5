/** Quotes a text as one word of a POSIX shell command. A plain word is returned unchanged. */
export const toShellWord = (text: string): string => (isPlain.test(text) ? text : quote(text));

/**
 * Quotes a text for every shell. cmd.exe has no single quotes, so they are used only if double quotes are not safe in a
 * POSIX shell.
 */
export function toPortableWord(text: string): string {
  if (isPlain.test(text)) return text;
  return /["$`\\!]/.test(text) ? quote(text) : `"${text}"`;
}

/** Puts a text in single quotes. The shell does not interpret any character in them. */
export const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const isPlain = /^[\w./:@+-]+$/;
