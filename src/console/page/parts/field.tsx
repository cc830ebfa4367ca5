import type { PartialInputHTMLAttributes } from "preact";
import { useId } from "preact/hooks";
import { toVisible } from "./text.tsx";

interface TextFieldProps extends Pick<
  PartialInputHTMLAttributes<HTMLInputElement>,
  "autocomplete" | "disabled" | "maxLength" | "required" | "spellcheck"
> {
  readonly label: string;
  /** A hint behind the label. */
  readonly hint?: string;
  /** @default a new one */
  readonly id?: string;
  /** @default "text" */
  readonly type?: "text" | "search" | "password" | "datetime-local";
  readonly value: string;
  /** Called with the text at each key. */
  onText?(text: string): void;
  /** Called with the text when the user leaves the field. */
  onDone?(text: string): void;
}

/** An input of one line with its label. */
export function TextField({ label, hint, id, type = "text", onText, onDone, ...input }: TextFieldProps) {
  const own = useId();
  return (
    <div class="field">
      <label for={id ?? own}>
        {label}
        {hint !== undefined && <small> {hint}</small>}
      </label>
      <input
        {...input}
        id={id ?? own}
        type={type as "text"} // the types of Preact allow one type at a time
        onInput={({ currentTarget }) => onText?.(currentTarget.value)}
        onChange={({ currentTarget }) => onDone?.(currentTarget.value)}
      />
    </div>
  );
}

interface ChoiceProps {
  readonly id: string;
  readonly label: string;
  readonly value: string | undefined;
  /** The values, each with a title if that is another text. */
  readonly choices: readonly (string | readonly [value: string, title: string])[];
  /** The first choice, which has no value. @default there is none */
  readonly none?: string;
  onChange(value: string | undefined): void;
}

/** A list from which one value is chosen, with its label. */
export function Choice({ id, label, value = "", choices, none, onChange }: ChoiceProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value || undefined)}>
        {none !== undefined && <option value="">{none}</option>}
        {choices.map((choice) => {
          const [one, title] = typeof choice === "string" ? [choice, choice] : choice;
          return (
            <option key={one} value={one}>
              {toVisible(title)}
            </option>
          );
        })}
      </select>
    </div>
  );
}
