/** A text as one word of a shell command. A plain word stays as it is. */
export const toShellWord = (text: string): string => (isPlain.test(text) ? text : quote(text));

/** The same for every shell, cmd.exe included, which has no single quotes: they are used only where a text needs them. */
export function toPortableWord(text: string): string {
  if (isPlain.test(text)) return text;
  return /["$`\\!]/.test(text) ? quote(text) : `"${text}"`;
}

/** A text in single quotes, in which no character has a meaning for the shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const isPlain = /^[\w./:@+-]+$/;
