/** The content of a file: picture, table, JSON or text. Content is shown as text or as a picture, never as a page. */
import { Anchor, Button, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { IconDownload } from "@tabler/icons-react";
import { useEffect, useState } from "react";

import { request } from "@/api/client";
import { Copy } from "@/components/code";
import { Failure, Loading } from "@/components/states";
import { bytes, plural } from "@/lib/format";

import { type Csv, parseCsv } from "./csv";
import classes from "./files.module.css";
import { JsonTree } from "./json-tree";
import { firstLines, imageTypeOf, kindOf, MOST_JSON, MOST_TEXT } from "./preview-kind";
import { useDownload } from "./use-download";

const MOST_LINES = 5_000;

export type Previewed = {
  path: string;
  size: number;
  /** The address of its bytes below the base path. */
  address: string;
  digest?: string;
  isLive?: boolean;
};

export function Preview({ file, actions }: { file: Previewed; actions?: React.ReactNode }) {
  const save = useDownload();
  return (
    <section className={classes.preview} aria-label={`Preview of ${file.path}`}>
      <Group justify="space-between" gap="xs" className={classes.previewHead} wrap="nowrap">
        <div className={classes.previewName}>
          <span className={classes.mono}>{file.path}</span>
          <Copy text={file.path} label="Copy the path" />
          <Text span size="xs" c="dimmed">
            {bytes(file.size)}
            {file.isLive ? ", growing" : ""}
          </Text>
        </div>
        <Group gap={6} wrap="nowrap">
          {actions}
          <Button variant="default" leftSection={<IconDownload size={14} />} onClick={() => save(file.address)}>
            Download
          </Button>
        </Group>
      </Group>
      <Content file={file} />
    </section>
  );
}

function Content({ file }: { file: Previewed }) {
  const type = imageTypeOf(file.path);
  if (kindOf(file.path, file.size, null) === "image") return <Picture address={file.address} type={type!} alt={file.path} digest={file.digest} />;
  return <TextContent file={file} />;
}

/** The first bytes of a file. */
function useHead(file: Previewed, limit: number) {
  return useQuery({
    queryKey: ["bytes", file.address, file.digest ?? file.size, limit],
    staleTime: file.digest ? Infinity : 0,
    queryFn: async ({ signal }) => {
      if (file.size === 0) return new Uint8Array();
      const response = await request(file.address, { signal, headers: { range: `bytes=0-${limit - 1}` } });
      return new Uint8Array(await response.arrayBuffer());
    },
  });
}

function TextContent({ file }: { file: Previewed }) {
  const isJson = /\.(json|ipynb)$/i.test(file.path) && file.size <= MOST_JSON;
  const limit = isJson ? MOST_JSON : MOST_TEXT;
  const { data, error, refetch } = useHead(file, limit);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <div className={classes.pad}><Loading rows={10} height={15} /></div>;
  const kind = kindOf(file.path, file.size, data);
  if (kind === "binary") return <Text p="md" size="sm" c="dimmed">This file is not text; download it to open it.</Text>;
  const isCut = file.size > data.length;
  const text = new TextDecoder().decode(data);
  if (kind === "csv") return <CsvTable text={text} isCut={isCut} />;
  if (kind === "json") return <Json text={text} />;
  return <Lines text={text} isCut={isCut} />;
}

function Lines({ text, isCut }: { text: string; isCut: boolean }) {
  const shown = firstLines(text, isCut, MOST_LINES);
  if (!text) return <Text p="md" size="sm" c="dimmed">The file is empty.</Text>;
  return (
    <>
      <pre className={classes.text} tabIndex={0}>
        {shown.lines.join("\n")}
      </pre>
      {shown.isCut && <Note>The first {plural(shown.lines.length, "line")} are shown.</Note>}
    </>
  );
}

function Json({ text }: { text: string }) {
  const [isRaw, setRaw] = useState(false);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return (
      <>
        <Note>This is not valid JSON.</Note>
        <Lines text={text} isCut={false} />
      </>
    );
  }
  return (
    <>
      <Note>
        <Anchor component="button" size="xs" onClick={() => setRaw(!isRaw)}>
          {isRaw ? "Show as a tree" : "Show the text"}
        </Anchor>
      </Note>
      {isRaw ? (
        <pre className={classes.text} tabIndex={0}>
          {JSON.stringify(value, null, 2)}
        </pre>
      ) : (
        <div className={classes.tree} tabIndex={0} role="region" aria-label="JSON">
          <JsonTree value={value} />
        </div>
      )}
    </>
  );
}

function CsvTable({ text, isCut }: { text: string; isCut: boolean }) {
  const [table, setTable] = useState<Csv | null>(null);
  useEffect(() => void parseCsv(text, isCut).then(setTable), [text, isCut]);
  if (!table) return <div className={classes.pad}><Loading rows={10} height={20} /></div>;
  return (
    <>
      <div className={classes.table} tabIndex={0} role="region" aria-label="Table">
        <Table fz="xs" verticalSpacing={3} stickyHeader>
          <Table.Thead>
            <Table.Tr>
              {table.header.map((name, index) => (
                <Table.Th key={index}>{name || <span className="hidden-text">Column {index + 1}</span>}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {table.rows.map((row, index) => (
              <Table.Tr key={index}>
                {row.map((cell, column) => (
                  <Table.Td key={column}>{cell}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      <Note>{table.isCut ? `The first ${plural(table.rows.length, "row")} are shown.` : plural(table.rows.length, "row")}</Note>
    </>
  );
}

/** A picture of the API, fetched with the session and shown by an address of this page only. */
export function Picture({ address, type, alt, digest }: { address: string; type: string; alt: string; digest?: string }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["picture", address, digest],
    staleTime: Infinity,
    queryFn: async ({ signal }) => new Blob([await (await request(address, { signal })).arrayBuffer()], { type }),
  });
  const [url, setUrl] = useState<string | null>(null);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    if (!data) return;
    const made = URL.createObjectURL(data);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [data]);
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (isBroken) return <Text p="md" size="sm" c="dimmed">The browser cannot show this picture; download it.</Text>;
  if (!url) return <div className={classes.pad}><Loading rows={1} height={200} /></div>;
  return (
    <div className={classes.picture}>
      <img src={url} alt={alt} onError={() => setBroken(true)} />
    </div>
  );
}

function Note({ children }: { children: React.ReactNode }) {
  return <div className={classes.note}>{children}</div>;
}
