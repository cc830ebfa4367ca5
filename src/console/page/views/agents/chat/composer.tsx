import { Button } from "../../../parts/button.tsx";
import type { FileUIPart } from "ai";
import type { RefObject } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { act, notify } from "../../../parts/notices.tsx";
import { Text } from "../../../parts/text.tsx";
import { canAct, whyNot } from "../../../session.ts";
import type { ChatSession } from "./chat-session.ts";
import { toEnd } from "./sticky-end.ts";

export interface ComposerProps {
  readonly session: ChatSession;
  /** The message to change. @default a new one */
  readonly edit?: {
    readonly messageId: string;
    readonly text: string;
    readonly files: readonly FileUIPart[];
    onClose(): void;
  };
}

const mainId = "chat-message";

/** The input of a message. Enter sends it, Shift+Enter begins a new line. */
export function Composer({ session, edit }: ComposerProps) {
  const [text, setText] = useState(edit?.text ?? "");
  const [files, setFiles] = useState<readonly FileUIPart[]>(edit?.files ?? []);
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLTextAreaElement>(null);
  const phase = session.phase.value;
  const canSend = phase === "ready" && canAct() && (text.trim() !== "" || files.length > 0);
  useEffect(() => {
    if (phase !== "opening") input.current?.focus({ preventScroll: true });
  }, [phase === "opening"]);

  const close = (): void => {
    edit?.onClose();
    document.getElementById(mainId)?.focus();
  };
  const submit = (): void => {
    if (!canSend) return;
    if (edit) {
      close();
      return void session.edit(edit.messageId, text, files);
    }
    setText("");
    setFiles([]);
    toEnd();
    void session.send(text, files);
    input.current?.focus();
  };
  const add = async (list: Iterable<File>): Promise<void> => {
    if (session.isOther.value) return; // a message of a person is a text
    try {
      const added = await Promise.all(Array.from(list, toFilePart));
      setFiles((before) => [...before, ...added]);
    } catch {
      notify("failed", "The file could not be read");
    }
    input.current?.focus();
  };
  return (
    <form
      class={edit ? "composer" : "composer sticky"}
      data-over={isOver}
      onSubmit={handle(submit)}
      onDragOver={handle(() => setOver(true))}
      onDragLeave={() => setOver(false)}
      onDrop={handle(({ dataTransfer }: DragEvent) => {
        setOver(false);
        if (canAct() && dataTransfer) void add(dataTransfer.files);
      })}
    >
      <Files files={files} onRemove={(index) => setFiles(files.toSpliced(index, 1))} />
      <MessageInput
        box={input}
        isClosed={phase === "closed"}
        {...{ text, setText, submit, add }}
        close={edit && close}
      />
      <Actions {...{ session, canSend, add }} close={edit && close} onStopped={() => input.current?.focus()} />
    </form>
  );
}

/** Returns a listener that replaces what the browser would do. */
const handle =
  <E extends Event>(listener: (event: E) => void) =>
  (event: E): void => {
    event.preventDefault();
    listener(event);
  };

function Files({ files, onRemove }: { files: readonly FileUIPart[]; onRemove: (index: number) => void }) {
  if (files.length === 0) return null;
  return (
    <ul class="tags" aria-label="Files">
      {files.map(({ filename, mediaType }, index) => (
        <li key={index} class="tag">
          <Text value={filename ?? mediaType} />
          <Button class="plain" aria-label={`Remove ${filename ?? mediaType}`} onClick={() => onRemove(index)}>
            ×
          </Button>
        </li>
      ))}
    </ul>
  );
}

interface InputProps {
  readonly box: RefObject<HTMLTextAreaElement | null>;
  readonly isClosed: boolean;
  readonly text: string;
  setText(text: string): void;
  submit(): void;
  add(files: Iterable<File>): Promise<void>;
  /** Ends the change of a message. Undefined for a new one. */
  readonly close: (() => void) | undefined;
}

function MessageInput({ box, isClosed, text, setText, submit, add, close }: InputProps) {
  const own = useId();
  const id = close ? own : mainId;
  return (
    <>
      <label class="unseen" for={id}>
        {close ? "Changed message" : "Message"}
      </label>
      <textarea
        ref={box}
        id={id}
        rows={Math.min(8, Math.max(2, text.split("\n").length))}
        placeholder="Write a message"
        disabled={!canAct() || isClosed}
        title={whyNot()}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") close?.();
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
        onPaste={(event) => {
          const pasted = event.clipboardData?.files;
          if (!pasted || pasted.length === 0) return;
          event.preventDefault();
          void add(pasted);
        }}
      />
    </>
  );
}

interface ActionProps extends Pick<InputProps, "add" | "close"> {
  readonly session: ChatSession;
  readonly canSend: boolean;
  onStopped(): void;
}

function Actions({ session, canSend, add, close, onStopped }: ActionProps) {
  const chosen = useRef<HTMLInputElement>(null);
  const stop = (): void => {
    void act("Stopped", () => session.stop());
    onStopped();
  };
  return (
    <div class="actions">
      <input
        ref={chosen}
        type="file"
        multiple
        hidden
        onChange={({ currentTarget }) => {
          void add([...(currentTarget.files ?? [])]);
          currentTarget.value = "";
        }}
      />
      <Button type="submit" class="first" acts disabled={!canSend}>
        {close ? "Send the change" : "Send"}
      </Button>
      {!close && session.phase.value === "busy" && (
        <Button acts onClick={stop}>
          Stop
        </Button>
      )}
      {close && <Button onClick={close}>Cancel</Button>}
      {!session.isOther.value && (
        <Button acts onClick={() => chosen.current?.click()}>
          Add files
        </Button>
      )}
      {!close && <LiveRegion session={session} />}
    </div>
  );
}

/** Tells a screen reader the start and the end of an answer. */
function LiveRegion({ session }: { session: ChatSession }) {
  const [word, setWord] = useState("");
  const isBusy = session.phase.value === "busy";
  const wasBusy = useRef(false);
  useEffect(() => {
    if (isBusy) setWord("The agent answers");
    else if (wasBusy.current) setWord(session.problem.value ? "The answer has failed" : "The answer is complete");
    wasBusy.current = isBusy;
  }, [isBusy]);
  return (
    <span class="unseen" role="status">
      {word}
    </span>
  );
}

function toFilePart(file: File): Promise<FileUIPart> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("error", () => reject(new Error("The file could not be read")));
    reader.addEventListener("load", () => {
      const mediaType = file.type || "application/octet-stream";
      const url = String(reader.result).replace(/^data:[^;,]*/, `data:${mediaType}`);
      resolve({ type: "file", mediaType, filename: file.name, url });
    });
    reader.readAsDataURL(file);
  });
}
