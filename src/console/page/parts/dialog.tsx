import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export interface DialogProps {
  readonly title: string;
  /** The word on the button that does it. */
  readonly submit: string;
  readonly children?: ComponentChildren;
  onSubmit(): void;
  onClose(): void;
}

/** A question before an action. It is open for as long as it is rendered; Escape and "Cancel" close it. */
export function Dialog({ title, submit, children, onSubmit, onClose }: DialogProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
          onClose();
        }}
      >
        <h2 id={id}>{title}</h2>
        {children}
        <div class="actions">
          <button type="submit" class="first">
            {submit}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}
