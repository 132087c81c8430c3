/** Where the script of a run is: in a folder of this computer, or in the snapshot of an earlier run. */
import { Alert, Button, FileButton, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { IconFolderOpen } from "@tabler/icons-react";
import { useState } from "react";

import { bytes, plural } from "@/lib/format";
import { checkSize, type SourceFile, sourceFiles } from "./upload";

export type Source =
  | { kind: "run"; run: string; digest: string; paths: string[] | null }
  | { kind: "folder"; name: string; files: SourceFile[] }
  | { kind: "none" };

/** The paths of a source, if they are known. */
export function pathsOf(source: Source): string[] | null {
  if (source.kind === "folder") return source.files.map(({ path }) => path);
  return source.kind === "run" ? source.paths : [];
}

type Props = { source: Source; earlier: Source | null; onChange: (source: Source) => void };

export function SourcePicker({ source, earlier, onChange }: Props) {
  const [error, setError] = useState("");
  const [isReading, setReading] = useState(false);
  async function choose(chosen: File[]) {
    if (!chosen.length) return;
    setError("");
    setReading(true);
    try {
      const files = await sourceFiles(chosen);
      checkSize(files);
      onChange({ kind: "folder", name: chosen[0]!.webkitRelativePath.split("/")[0] || chosen[0]!.name, files });
    } catch (problem) {
      setError((problem as Error).message);
    } finally {
      setReading(false);
    }
  }
  return (
    <Stack gap="xs">
      {earlier && (
        <SegmentedControl
          aria-label="Source"
          data={[
            { value: "run", label: "Snapshot of the run" },
            { value: "folder", label: "Another folder" },
          ]}
          value={source.kind === "run" ? "run" : "folder"}
          onChange={(kind) => onChange(kind === "run" ? earlier : { kind: "none" })}
          size="xs"
          w="fit-content"
        />
      )}
      {source.kind === "run" ? (
        <Text size="sm">
          The files of run <code>{source.run}</code>
          {source.paths && `: ${plural(source.paths.length, "file")}`}, as they were then.
        </Text>
      ) : (
        <Group gap="sm">
          <FileButton
            onChange={(files) => void choose(files)}
            multiple
            inputProps={{ "aria-label": "Folder with the script", webkitdirectory: "" } as never}
          >
            {(props) => (
              <Button {...props} variant="default" loading={isReading} leftSection={<IconFolderOpen size={16} />}>
                Choose a folder
              </Button>
            )}
          </FileButton>
          <Text size="sm" c={source.kind === "folder" ? undefined : "dimmed"}>
            {source.kind === "folder"
              ? `${source.name}: ${plural(source.files.length, "file")}, ${bytes(source.files.reduce((sum, { file }) => sum + file.size, 0))}`
              : "The folder with the script. What .amlignore or .gitignore names stays here."}
          </Text>
        </Group>
      )}
      {error && (
        <Alert color="red" role="alert">
          {error}
        </Alert>
      )}
    </Stack>
  );
}
