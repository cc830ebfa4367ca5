import type { ComponentChildren } from "preact";

/** A text from the server or a user. */
export const Text = ({ value }: { value: string }) => <bdi>{toVisible(value)}</bdi>;

/** A link with such a text. */
export const Link = ({ to, text }: { to: string; text: string }) => (
  <a href={to}>
    <Text value={text} />
  </a>
);

/** A text as a paragraph, unless it is empty. */
export const Paragraph = ({ text, class: name }: { text: string; class?: string }) =>
  text === "" ? null : (
    <p class={name}>
      <Text value={text} />
    </p>
  );

/** An item in a list of facts, unless it has no content. */
export const Fact = ({ label, children }: { label: string; children: ComponentChildren }) =>
  children ? (
    <li>
      {label} {children}
    </li>
  ) : null;

/** Returns a text with its hidden characters written as `\u202E`, so that none can disguise another text. */
export const toVisible = (text: string): string => text.replace(hidden, toEscape);

// Control and format characters, some of which reverse the text around them. Tabs and line ends are shown.
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

const toEscape = (one: string): string => `\\u${one.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;

/** Returns a number with its word: `1 step`, `2 steps`. */
export const toCount = (count: number, word: string): string =>
  `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
