import { useState } from "react";
import { createRoot } from "react-dom/client";
import { Approvals } from "./Approvals.tsx";
import { Desk } from "./Desk.tsx";
import { SignIn } from "./SignIn.tsx";
import { readSession, storeSession, type Session } from "./session.ts";

function App() {
  const [session, setSession] = useState(readSession);
  function change(next: Session | undefined): void {
    storeSession(next);
    setSession(next);
  }
  if (!session) return <SignIn onSignIn={change} />;
  return (
    <>
      <header>
        <h1>Support desk</h1>
        <span>{session.name}</span>
        <button onClick={() => change(undefined)}>Sign out</button>
      </header>
      {session.role === "manager" ? <Approvals /> : <Desk />}
    </>
  );
}

createRoot(document.getElementById("root")!).render(<App />);
