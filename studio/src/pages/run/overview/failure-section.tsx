/** Why a run failed: its error, which process it was, and the end of the log. */
import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import type { RunDetails } from "@/api/queries";

import { BUILD_LOG, MAIN_LOG } from "../logs/log-names";
import classes from "../run.module.css";
import { LogTail } from "./log-tail";

const TITLES: Record<string, string> = {
  exited: "The script failed",
  signaled: "The script was killed",
  out_of_memory: "Out of memory",
  time_limit: "Stopped at its time limit",
  start_failed: "It could not be started",
  environment_failed: "The environment could not be built",
  evicted: "Evicted",
  node_lost: "Its machine was lost",
  gave_up: "Its target did not answer",
  rejected: "The target refused the run",
};

export function FailureSection({ run }: { run: RunDetails }) {
  const message = typeof run.error?.message === "string" ? run.error.message : run.message;
  const rank = rankOf(message);
  const path = run.reason === "environment_failed" ? BUILD_LOG : (rank && run.log_files.find((each) => each.endsWith(`_process_${rank}.txt`))) || MAIN_LOG;
  return (
    <div className={classes.stack}>
      <Alert
        color="red"
        variant="light"
        icon={<IconAlertTriangle size={18} />}
        title={rank ? `Rank ${rank} ended the run` : (TITLES[run.reason ?? ""] ?? "The run failed")}
      >
        <Text size="sm" component="pre" className={classes.error}>
          {message || "Its reason is not known."}
        </Text>
      </Alert>
      <LogTail run={run} path={path} lines={30} />
    </div>
  );
}

/** The number of the process that the message of a run of several processes names. */
export const rankOf = (message: string): string | null => /\bRank (\d+)\b/i.exec(message)?.[1] ?? null;
