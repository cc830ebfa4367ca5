import type { FileUIPart } from "ai";
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
  const own = useId();
  const id = edit ? own : mainId;
  const [text, setText] = useState(edit?.text ?? "");
  const [files, setFiles] = useState<readonly FileUIPart[]>(edit?.files ?? []);
  const [isOver, setOver] = useState(false);
  const input = useRef<HTMLTextAreaElement>(null);
  const chosen = useRef<HTMLInputElement>(null);
  const phase = session.phase.value;
  const isBusy = phase === "busy";
  const isEmpty = text.trim() === "" && files.length === 0;
  useEffect(() => {
    if (phase !== "opening") input.current?.focus({ preventScroll: true });
  }, [phase === "opening"]);

  const close = (): void => {
    edit?.onClose();
    document.getElementById(mainId)?.focus();
  };
  const submit = (): void => {
    if (phase !== "ready" || isEmpty || !canAct()) return;
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
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        if (canAct() && event.dataTransfer) void add(event.dataTransfer.files);
      }}
    >
      {files.length > 0 && (
        <ul class="tags" aria-label="Files">
          {files.map((file, index) => (
            <li key={index} class="tag">
              <Text value={file.filename ?? file.mediaType} />
              <button
                type="button"
                class="plain"
                aria-label={`Remove ${file.filename ?? file.mediaType}`}
                onClick={() => setFiles(files.toSpliced(index, 1))}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      <label class="unseen" for={id}>
        {edit ? "Changed message" : "Message"}
      </label>
      <textarea
        ref={input}
        id={id}
        rows={Math.min(8, Math.max(2, text.split("\n").length))}
        placeholder="Write a message"
        disabled={!canAct() || phase === "closed"}
        title={whyNot()}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape" && edit) close();
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
        <button type="submit" class="first" disabled={isEmpty || phase !== "ready" || !canAct()} title={whyNot()}>
          {edit ? "Send the change" : "Send"}
        </button>
        {!edit && isBusy && (
          <button
            type="button"
            disabled={!canAct()}
            title={whyNot()}
            onClick={() => {
              void act("Stopped", () => session.stop());
              input.current?.focus();
            }}
          >
            Stop
          </button>
        )}
        {edit && (
          <button type="button" onClick={close}>
            Cancel
          </button>
        )}
        {!session.isOther.value && (
          <button type="button" disabled={!canAct()} title={whyNot()} onClick={() => chosen.current?.click()}>
            Add files
          </button>
        )}
        {!edit && <LiveRegion session={session} />}
      </div>
    </form>
  );
}

/** Tells a screen reader that an answer begins, and that it is complete. */
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
