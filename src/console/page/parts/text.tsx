/** A text of the server or of a user. */
export const Text = ({ value }: { value: string }) => <bdi>{toVisible(value)}</bdi>;

/** Returns a text with its hidden characters written as `\u202E`, so that none can disguise another text. */
export const toVisible = (text: string): string => text.replace(hidden, toEscape);

// Control and format characters, some of which change the direction of the text around them. Tabs and line ends are shown.
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

const toEscape = (one: string): string => `\\u${one.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
