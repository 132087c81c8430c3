/** The health of a target in a word, with the reason. */
import type { Target } from "@/api/queries";
import type { Tone } from "./states";

export function healthOf(target: Target): { tone: Tone; label: string; title?: string } {
  if (target.quarantine) return { tone: "bad", label: "Quarantined", title: target.quarantine };
  const state = target.provisioning_state;
  const title = target.provisioning_message || undefined;
  if (state === "Failed") return { tone: "bad", label: "Failed", title };
  if (state && state !== "Succeeded") return { tone: "busy", label: state, title };
  if (target.pin && !target.pin_confirmed) {
    return { tone: "waiting", label: "Key not confirmed", title: "Its host key was pinned when it was first seen." };
  }
  return { tone: "good", label: "Ready", title };
}
