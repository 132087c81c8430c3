/** What the reason of a state means, and what can be done about it. */

const HINTS: Record<string, string> = {
  waiting_for_slot: "It starts as soon as a slot of its target is free.",
  waiting_for_target: "It starts as soon as the target can be used again.",
  waiting_in_queue: "The target has a queue of its own, and the run waits in it.",
  building_environment: "The environment is built once; later runs find it. The log shows the build.",
  collecting_outputs: "The script has ended; its outputs are being collected.",
  no_contact: "The run may still be going on. Its state is known again when the target answers.",
  signaled: "Something killed the script: often the kernel, an administrator or the script itself.",
  out_of_memory: "Give it more memory, a larger machine, or smaller batches.",
  time_limit: "It ran longer than its limit permits. Submit it again with a higher limit.",
  start_failed: "The command could not be started. Check the script's name and the interpreter.",
  environment_failed: "The log of the build says which package could not be installed.",
  exit_unknown: "The end was not recorded. The log may show how far it came.",
  supervisor_lost: "The process beside the script was killed. Submit the run again, or ask for retries.",
  node_lost: "Its machine was restarted. Submit the run again, or ask for retries.",
  evicted: "Its node was taken away more often than the run may be queued again.",
  gave_up: "Its target did not answer for too long. Look at the target before submitting again.",
  rejected: "The target refused the run. Its message says what to change.",
};

const WORDS: Record<string, string> = {
  waiting_for_slot: "waiting for a slot",
  waiting_for_target: "waiting for its target",
  waiting_in_queue: "waiting in the target's queue",
  building_environment: "building the environment",
  collecting_outputs: "collecting outputs",
  no_contact: "no contact to its target",
};

/** The reason of a state in words: the server's message, or else the reason itself. */
export function reasonText({ message, reason }: { message: string; reason: string | null }): string {
  return message || (reason ? (WORDS[reason] ?? reason.replaceAll("_", " ")) : "");
}

export function hintOf({ state, reason }: { state: string; reason: string | null }): string {
  if (!reason || state === "Completed" || state === "Canceled" || (reason === "exited" && state !== "Failed")) return "";
  return HINTS[reason] ?? "";
}
