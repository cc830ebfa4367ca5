import { Button } from "./button.tsx";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

/** A modal dialog. The browser keeps the focus inside, and gives it back at the end. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  title: string;
  onClose: () => void;
  children: (close: () => void) => ComponentChildren;
}) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <h2 id={id}>{title}</h2>
      {children(() => dialog.current?.close())}
    </dialog>
  );
}

export interface QuestionProps {
  readonly title: string;
  /** The word on the button that does it. */
  readonly submit: string;
  /** The word on the button that closes it. @default "Cancel" */
  readonly close?: string;
  readonly children?: ComponentChildren;
  onSubmit(): void;
  onClose(): void;
}

/** A question before an action. It is open for as long as it is rendered; Escape and its last button close it. */
export function Question({ title, submit, close: no = "Cancel", children, onSubmit, onClose }: QuestionProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      {(close) => (
        <form
          method="dialog"
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
            close();
          }}
        >
          {children}
          <div class="actions">
            <button type="submit" class="first">
              {submit}
            </button>
            <Button onClick={close}>{no}</Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
