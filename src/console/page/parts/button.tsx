import type { ComponentProps } from "preact";
import { whyNot } from "../session.ts";

type ButtonProps = ComponentProps<"button"> & {
  /** True if it changes something: it is disabled while the user may not act, and its title says why. */
  readonly acts?: boolean;
};

/** A button that submits nothing, unless its `type` says so. */
export function Button({ acts = false, disabled = false, title, ...rest }: ButtonProps) {
  const refusal = acts ? whyNot() : undefined;
  return <button type="button" {...rest} disabled={disabled || refusal !== undefined} title={refusal ?? title} />;
}
