/** The files of a run and of its snapshot: a tree, and a preview beside it. */
import { Anchor, Button, SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { RunDetails } from "@/api/queries";
import { Code } from "@/components/code";
import { Empty, Failure, Loading } from "@/components/states";
import { isFinal } from "@/lib/states";

import { nameOfLog } from "../logs/log-names";
import { filePath, runFiles, runSnapshot, snapshotPath } from "../queries";
import { useRunSearch } from "../search";
import { FileBrowser } from "./browser";
import classes from "./files.module.css";
import { Preview, type Previewed } from "./preview";

type Props = { run: RunDetails };

export function FilesTab({ run }: Props) {
  const [search, setSearch] = useRunSearch();
  const isSnapshot = search.of === "snapshot";
  return (
    <Stack gap="sm">
      {run.snapshot && (
        <SegmentedControl
          size="xs"
          className={classes.which}
          aria-label="Which files"
          value={isSnapshot ? "snapshot" : "run"}
          onChange={(which) => setSearch({ of: which === "snapshot" ? "snapshot" : undefined, file: undefined })}
          data={[
            { value: "run", label: "Outputs and logs" },
            { value: "snapshot", label: "Snapshot" },
          ]}
        />
      )}
      {isSnapshot ? <SnapshotFiles run={run} /> : <RunFiles run={run} />}
    </Stack>
  );
}

function RunFiles({ run }: Props) {
  const { data, error, refetch } = useQuery({ ...runFiles(run), refetchInterval: isFinal(run.state) ? false : 5_000 });
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading rows={8} height={29} />;
  const files = data.files.map(({ path, size, digest, is_live }) => ({
    path,
    size,
    digest,
    isLive: is_live,
    address: filePath(run, path),
  }));
  if (!files.length) {
    return (
      <Empty title="No files yet">
        What the script writes to <code>outputs/</code> is here when it has ended; its logs appear as they grow.
      </Empty>
    );
  }
  return <Browse files={files} label="Files of the run" command={`windlass download ${run.id}`} hasLogs />;
}

/** The files of the snapshot: the source folder as it was at submit. */
export function SnapshotFiles({ run }: Props) {
  const { data, error, refetch } = useQuery(runSnapshot(run, run.snapshot));
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading rows={8} height={29} />;
  const files = data.files.map(({ path, size, digest }) => ({ path, size, digest, address: snapshotPath(run, path) }));
  if (!files.length) return <Empty title="The snapshot is empty">The run was submitted without a source folder.</Empty>;
  return <Browse files={files} label="Files of the snapshot" command={`Run.get(workspace, "${run.id}").restore_snapshot(path="snapshot.zip")`} />;
}

function Browse({ files, label, command, hasLogs = false }: { files: Previewed[]; label: string; command: string; hasLogs?: boolean }) {
  const [search, setSearch] = useRunSearch();
  const chosen = files.find(({ path }) => path === search.file);
  const isLog = hasLogs && chosen && nameOfLog(chosen.path).path && /^(attempts\/\d+\/)?(user_logs|azureml-logs|logs|system_logs)\//.test(chosen.path);
  return (
    <div className={classes.columns}>
      <div className={classes.left}>
        <FileBrowser files={files} chosen={search.file} onChoose={(file) => setSearch({ file })} label={label} />
        <details className={classes.all}>
          <summary>Download all of them</summary>
          <Code text={command} />
        </details>
      </div>
      {chosen ? (
        <Preview
          key={chosen.path}
          file={chosen}
          actions={
            isLog && (
              <Button variant="default" onClick={() => setSearch({ tab: "logs", file: chosen.path })}>
                Open as log
              </Button>
            )
          }
        />
      ) : (
        <div className={classes.nothing}>
          <Text size="sm" c="dimmed">
            {search.file ? `There is no file ${search.file}.` : "Choose a file to see what is in it."}{" "}
            {search.file && (
              <Anchor component="button" size="sm" onClick={() => setSearch({ file: undefined })}>
                Show all
              </Anchor>
            )}
          </Text>
        </div>
      )}
    </div>
  );
}
