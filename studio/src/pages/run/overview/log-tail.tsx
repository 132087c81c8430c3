/** The last lines of a log. */
import { Text } from "@mantine/core";
import { useEffect, useMemo } from "react";

import type { RunDetails } from "@/api/queries";
import { Section } from "@/components/page";
import { Loading } from "@/components/states";
import { isFinal } from "@/lib/states";

import { codesAfter } from "../logs/ansi";
import { LineText } from "../logs/line-text";
import { LogDocument } from "../logs/log-document";
import { firstLog } from "../logs/log-names";
import { logSource } from "../logs/log-source";
import { useDocument } from "../logs/use-document";
import classes from "../run.module.css";
import { TabLink } from "./overview-tab";

type Props = { run: RunDetails; path?: string; lines?: number };

export function LogTail({ run, path = firstLog(run), lines = 12 }: Props) {
  const isLive = !isFinal(run.state);
  const document = useMemo(
    () => new LogDocument(logSource(run, path), isLive),
    [run.workspace, run.id, path, isLive], // eslint-disable-line react-hooks/exhaustive-deps
  );
  useEffect(() => {
    void document.open();
    return () => document.close();
  }, [document]);
  useDocument(document);
  const first = Math.max(0, document.lineCount - lines);
  let codes = "";
  const shown = Array.from({ length: document.lineCount - first }, (_, index) => {
    const text = document.line(first + index) ?? "";
    const line = <LineText key={first + index} text={text} codes={codes} />;
    codes = codesAfter(codes, text);
    return line;
  });
  return (
    <Section title="End of the log" actions={<TabLink tab="logs" file={path}>Open the log</TabLink>}>
      {!document.isLoaded ? (
        <div className={classes.pad}>
          <Loading rows={5} height={14} />
        </div>
      ) : !shown.length ? (
        <Text size="sm" c="dimmed" className={classes.pad}>
          {document.error ? "The log cannot be read." : "Nothing has been printed."}
        </Text>
      ) : (
        <pre className={classes.tail} tabIndex={0} aria-label="End of the log">
          {shown}
        </pre>
      )}
    </Section>
  );
}
