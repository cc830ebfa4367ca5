import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError } from "../server/api.ts";
import { toApiError } from "../session.ts";
import { hasField, resolve, toInitial, toKind, type JsonSchema } from "./schema.ts";
import { Text, toVisible } from "./text.tsx";

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
      {problem && problem.path === undefined && (
        <p class="problem" role="alert">
          <Text value={problem.message} />
        </p>
      )}
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
  return found && hasField(found[1]!, root) ? { path: found[1]!, message: found[2]! } : { path: undefined, message };
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
          <button type="button" class="small" onClick={() => onChange(items.toSpliced(index, 1))}>
            Remove {index + 1}
          </button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => onChange([...items, toInitial(item, context.root) ?? null])}>
        Add
      </button>
    </fieldset>
  );
}

function SimpleField({
  context: { problem },
  schema,
  path,
  name,
  value,
  isRequired,
  onChange,
  kind,
}: FieldProps & { kind: "text" | "number" | "boolean" | "choice" | "json" }) {
  const id = useId();
  const isMissing = isRequired && (value === undefined || value === "");
  const found = problem?.path === path && path !== "" ? problem.message : undefined;
  const message = found !== undefined && isMissing && found.includes("undefined") ? "This field is required" : found;
  const described = { "aria-describedby": `${id}-more`, "aria-invalid": message !== undefined };
  const common = { id, ...described, required: isRequired && kind !== "boolean" };
  const label = schema.title ?? (name || "Value");
  return (
    <div class="field" data-kind={kind}>
      <label for={id}>
        <Text value={label} />
        {!isRequired && <small> optional</small>}
      </label>
      {kind === "boolean" && (
        <input
          {...common}
          type="checkbox"
          checked={value === true}
          onChange={({ currentTarget }) => onChange(currentTarget.checked)}
        />
      )}
      {kind === "choice" && (
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
      )}
      {kind === "number" && (
        <input
          {...common}
          type="text"
          inputMode="decimal"
          value={value === undefined ? "" : String(value)}
          onInput={({ currentTarget }) => onChange(toNumber(currentTarget.value))}
        />
      )}
      {kind === "text" && <TextInput {...common} schema={schema} value={value} onChange={onChange} />}
      {kind === "json" && <JsonInput {...common} value={value} onChange={onChange} />}
      <div id={`${id}-more`}>
        <Description of={schema} />
        {message !== undefined && (
          <p class="problem" role="alert">
            <Text value={message} />
          </p>
        )}
      </div>
    </div>
  );
}

function Description({ of: { description } }: { of: JsonSchema }) {
  if (!description) return null;
  return (
    <p class="hint">
      <Text value={description} />
    </p>
  );
}

interface InputProps {
  readonly id: string;
  readonly value: unknown;
  readonly required: boolean;
  onChange(value: unknown): void;
}

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
