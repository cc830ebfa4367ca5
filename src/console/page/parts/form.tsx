import { Button } from "./button.tsx";
import { Problem } from "./states.tsx";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError } from "../server/api.ts";
import { toApiError } from "../session.ts";
import { hasField, resolve, toInitial, toKind, type FieldKind, type JsonSchema } from "./schema.ts";
import { Paragraph, Text, toVisible } from "./text.tsx";

/** The schema of a form that only has its button. */
export const noFields: JsonSchema = { type: "object", properties: {} };

export interface FormProps {
  /** Undefined: any JSON is accepted. */
  readonly schema: JsonSchema | null | undefined;
  /** The value that the form begins with. @default the defaults of the schema */
  readonly initial?: unknown;
  readonly submit: string;
  readonly disabled?: boolean;
  /** Sends the value. An error that names a field is shown beside it. */
  onSubmit(value: unknown): Promise<void>;
}

/** A form made from a JSON Schema. The server validates: its message is shown at the field that it names. */
export function SchemaForm({ schema, initial, submit, disabled = false, onSubmit }: FormProps) {
  const root = schema ?? {};
  const [value, setValue] = useState<unknown>(() => initial ?? toInitial(root, root));
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState<FieldProblem | undefined>();
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (problem) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [problem]);
  const send = async (): Promise<void> => {
    setSending(true);
    setProblem(undefined);
    try {
      await onSubmit(value);
    } catch (error) {
      setProblem(toFieldProblem(toApiError(error), root));
    }
    setSending(false);
  };
  const context: FormContext = { root, problem };
  return (
    <form
      ref={form}
      class="schema-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!isSending && !disabled) void send();
      }}
    >
      <Field context={context} schema={root} path="" name="" value={value} isRequired onChange={setValue} />
      {problem && problem.path === undefined && <Problem message={problem.message} />}
      {/* A button that is disabled loses the focus. */}
      <button type="submit" class="first" disabled={disabled} aria-disabled={isSending}>
        {submit}
      </button>
    </form>
  );
}

interface FieldProblem {
  /** The path of the field, as the server writes it. Undefined: the problem is about no field. */
  readonly path: string | undefined;
  readonly message: string;
}
interface FormContext {
  readonly root: JsonSchema;
  readonly problem: FieldProblem | undefined;
}

/** Reads the field of an error such as `Invalid resume data: items.0.name: Expected a text`, if the form has that field. */
function toFieldProblem({ message, status }: ApiError, root: JsonSchema): FieldProblem {
  const found = status === 400 ? /^[^:]+: ([\w$.[\]-]+): (.+)$/s.exec(message) : null;
  const [, path, text] = found ?? [];
  const isField = path !== undefined && text !== undefined && hasField(path, root);
  return isField ? { path, message: text } : { path: undefined, message };
}

interface FieldProps {
  readonly context: FormContext;
  readonly schema: JsonSchema;
  readonly path: string;
  readonly name: string;
  readonly value: unknown;
  readonly isRequired: boolean;
  onChange(value: unknown): void;
}

function Field(props: FieldProps) {
  const schema = resolve(props.schema, props.context.root);
  const kind = toKind(schema);
  if (kind === "object") return <ObjectField {...props} schema={schema} />;
  if (kind === "list") return <ListField {...props} schema={schema} />;
  return <SimpleField {...props} schema={schema} kind={kind} />;
}

function ObjectField({ context, schema, path, name, value, onChange }: FieldProps) {
  const held = isRecord(value) ? value : {};
  const required = new Set(schema.required);
  const fields = Object.entries(schema.properties ?? {}).map(([key, child]) => (
    <Field
      key={key}
      context={context}
      schema={child}
      path={path === "" ? key : `${path}.${key}`}
      name={key}
      value={held[key]}
      isRequired={required.has(key)}
      onChange={(next) => onChange(withKey(held, key, next))}
    />
  ));
  if (path === "") return <>{fields.length > 0 ? fields : <p class="hint">No input is needed.</p>}</>;
  return (
    <fieldset>
      <legend>
        <Text value={schema.title ?? name} />
      </legend>
      <Description of={schema} />
      {fields}
    </fieldset>
  );
}

function ListField({ context, schema, path, name, value, onChange }: FieldProps) {
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  const item = schema.items ?? {};
  return (
    <fieldset>
      <legend>
        <Text value={schema.title ?? (name || "Items")} />
      </legend>
      <Description of={schema} />
      {items.map((one, index) => (
        <div class="list-item" key={index}>
          <Field
            context={context}
            schema={item}
            path={path === "" ? String(index) : `${path}.${index}`}
            name={`${schema.title ?? name} ${index + 1}`}
            value={one}
            isRequired
            onChange={(next) => onChange(items.with(index, next))}
          />
          <Button class="small" onClick={() => onChange(items.toSpliced(index, 1))}>
            Remove {index + 1}
          </Button>
        </div>
      ))}
      <Button class="small" onClick={() => onChange([...items, toInitial(item, context.root) ?? null])}>
        Add
      </Button>
    </fieldset>
  );
}

function SimpleField({ context: { problem }, ...props }: FieldProps & { kind: SimpleKind }) {
  const { schema, path, name, value, isRequired, onChange, kind } = props;
  const id = useId();
  const isMissing = isRequired && (value === undefined || value === "");
  const found = problem?.path === path && path !== "" ? problem.message : undefined;
  const message = found !== undefined && isMissing && found.includes("undefined") ? "This field is required" : found;
  const described = { "aria-describedby": `${id}-more`, "aria-invalid": message !== undefined };
  const input = { id, ...described, required: isRequired && kind !== "boolean", value, onChange };
  return (
    <div class="field" data-kind={kind}>
      <label for={id}>
        <Text value={schema.title ?? (name || "Value")} />
        {!isRequired && <small> optional</small>}
      </label>
      {kind === "boolean" && <BooleanInput {...input} />}
      {kind === "choice" && <ChoiceInput {...input} schema={schema} />}
      {kind === "number" && <NumberInput {...input} />}
      {kind === "text" && <TextInput {...input} schema={schema} />}
      {kind === "json" && <JsonInput {...input} />}
      <div id={`${id}-more`}>
        <Description of={schema} />
        {message !== undefined && <Problem message={message} />}
      </div>
    </div>
  );
}
type SimpleKind = Exclude<FieldKind, "object" | "list">;

const Description = ({ of: { description = "" } }: { of: JsonSchema }) => <Paragraph class="hint" text={description} />;

interface InputProps {
  readonly id: string;
  readonly value: unknown;
  readonly required: boolean;
  onChange(value: unknown): void;
}

const BooleanInput = ({ value, onChange, ...common }: InputProps) => (
  <input
    {...common}
    type="checkbox"
    checked={value === true}
    onChange={({ currentTarget }) => onChange(currentTarget.checked)}
  />
);

const ChoiceInput = ({ schema, value, onChange, ...common }: InputProps & { schema: JsonSchema }) => (
  <select
    {...common}
    value={typeof value === "string" ? value : ""}
    onChange={({ currentTarget }) => onChange(currentTarget.value === "" ? undefined : currentTarget.value)}
  >
    <option value="">Choose …</option>
    {(schema.enum as string[]).map((one) => (
      <option key={one} value={one}>
        {toVisible(one)}
      </option>
    ))}
  </select>
);

const NumberInput = ({ value, onChange, ...common }: InputProps) => (
  <input
    {...common}
    type="text"
    inputMode="decimal"
    value={value === undefined ? "" : String(value)}
    onInput={({ currentTarget }) => onChange(toNumber(currentTarget.value))}
  />
);

function TextInput({ schema, value, onChange, ...common }: InputProps & { schema: JsonSchema }) {
  const text = typeof value === "string" ? value : "";
  const isLong = (schema.maxLength ?? 0) > 200 || text.length > 80 || text.includes("\n");
  const change = (next: string): void => onChange(next === "" && !common.required ? undefined : next);
  return isLong ? (
    <textarea {...common} rows={4} value={text} onInput={({ currentTarget }) => change(currentTarget.value)} />
  ) : (
    <input {...common} type="text" value={text} onInput={({ currentTarget }) => change(currentTarget.value)} />
  );
}

/** An input for any JSON. A text that is not JSON is sent as a text. */
function JsonInput({ value, onChange, ...common }: InputProps) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  return (
    <textarea
      {...common}
      class="code"
      rows={4}
      spellcheck={false}
      value={text}
      placeholder="JSON"
      onInput={({ currentTarget }) => {
        setText(currentTarget.value);
        onChange(toJson(currentTarget.value));
      }}
    />
  );
}

/** Returns a number, or the text itself: the server says what it expected. */
function toNumber(text: string): unknown {
  if (text.trim() === "") return undefined;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}
function toJson(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
function withKey(record: Record<string, unknown>, key: string, value: unknown): Record<string, unknown> {
  const { [key]: _, ...rest } = record;
  return value === undefined ? rest : { ...rest, [key]: value };
}
const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
