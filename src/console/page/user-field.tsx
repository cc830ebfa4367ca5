import { useId, useState } from "preact/hooks";
import { actAs, actingUser, canChooseUser } from "./acting-user.ts";
import { go, place } from "./place.ts";

/** The user that the page acts as, where no authentication provider knows one. */
export function UserField() {
  const id = useId();
  const [text, setText] = useState(actingUser() ?? "");
  if (!canChooseUser()) return null;
  const change = (): void => {
    const userId = text.trim();
    setText(userId);
    if (userId === (actingUser() ?? "")) return;
    actAs(userId);
    const { segments } = place.value;
    // A conversation belongs to one user.
    if (segments[0] === "agents" && segments.length > 2) go(segments.slice(0, 2));
  };
  return (
    <form
      class="user"
      title="The page acts as this user: it shows their conversations and tool approvals, and starts runs for them"
      onSubmit={(event) => {
        event.preventDefault();
        change();
      }}
    >
      <label for={id}>User</label>
      <input
        id={id}
        type="text"
        maxLength={256}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        placeholder="none"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onChange={change}
      />
    </form>
  );
}
