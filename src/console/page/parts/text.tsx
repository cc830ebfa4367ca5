import { toVisible } from "./visible-text.ts";

/** A text of the server or of a user. */
export const Text = ({ value }: { value: string }) => <bdi>{toVisible(value)}</bdi>;
