/** The logs of a run, in the order in which people look for them, with names that say what they are. */

export const MAIN_LOG = "user_logs/std_log.txt";
export const BUILD_LOG = "azureml-logs/20_image_build_log.txt";

export type LogName = { path: string; label: string; group: string };

const OF_ATTEMPT = /^attempts\/(\d+)\/(.*)$/;
const OF_RANK = /std_log_process_(\d+)\.txt$/;

export function nameOfLog(path: string): LogName {
  const attempt = OF_ATTEMPT.exec(path);
  if (attempt) return { ...nameOfLog(attempt[2]!), path, group: `Attempt ${attempt[1]}` };
  const rank = OF_RANK.exec(path);
  if (path === MAIN_LOG) return { path, label: "Output of the script", group: "Logs" };
  if (path === BUILD_LOG) return { path, label: "Build of the environment", group: "Logs" };
  if (rank) return { path, label: `Output of rank ${rank[1]}`, group: "Ranks" };
  const group = path.startsWith("system_logs/") ? "System" : path.startsWith("logs/") ? "Files of the script" : "Logs";
  return { path, label: path.slice(path.indexOf("/") + 1), group };
}

const ORDER = ["Logs", "Ranks", "Files of the script", "System"];

/** Logs by group: those of this attempt first, earlier attempts after them, the latest first. */
export function groupLogs(paths: string[]): { group: string; logs: LogName[] }[] {
  const groups = new Map<string, LogName[]>();
  const known = new Set(paths);
  for (const path of [...(known.has(MAIN_LOG) ? [] : [MAIN_LOG]), ...paths]) {
    const log = nameOfLog(path);
    groups.set(log.group, [...(groups.get(log.group) ?? []), log]);
  }
  const rank = (group: string) => (ORDER.includes(group) ? ORDER.indexOf(group) : 100_000 - Number(group.slice(8)));
  const first = (path: string) => (path.endsWith(MAIN_LOG) ? 0 : path.endsWith(BUILD_LOG) ? 1 : 2);
  return [...groups]
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([group, logs]) => ({
      group,
      logs: logs.sort((a, b) => first(a.path) - first(b.path) || a.label.localeCompare(b.label, "en", { numeric: true })),
    }));
}

/** The log to show first: that of the build while the script has not begun, or if the build is what failed. */
export function firstLog({ log_files: paths, reason, state }: { log_files: string[]; reason: string | null; state: string }): string {
  const isBuilding = ["Queued", "Provisioning", "Starting", "Preparing"].includes(state) && !paths.includes(MAIN_LOG);
  return paths.includes(BUILD_LOG) && (isBuilding || reason === "environment_failed") ? BUILD_LOG : MAIN_LOG;
}
