import { ActionIcon, Tabs, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useState } from "react";

import { copyText } from "@/lib/clipboard";
import classes from "./code.module.css";

const SHOWN_MS = 1500;

/** A button that copies a text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  async function copy() {
    if (!(await copyText(text))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  }
  return (
    <Tooltip label={isCopied ? "Copied" : label}>
      <ActionIcon onClick={() => void copy()} aria-label={label} size="sm">
        {isCopied ? <IconCheck size={14} /> : <IconCopy size={14} />}
      </ActionIcon>
    </Tooltip>
  );
}

/** Code to read and to copy. */
export function Code({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <div className={classes.block}>
      <pre className={classes.code} tabIndex={0}>
        {text}
      </pre>
      <div className={classes.copy}>
        <Copy text={text} label={label} />
      </div>
    </div>
  );
}

/** The same action as a command and as Python code. */
export function Equivalent({ command, python }: { command: string; python: string }) {
  return (
    <Tabs defaultValue="command">
      <Tabs.List>
        <Tabs.Tab value="command">Command</Tabs.Tab>
        <Tabs.Tab value="python">Python</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="command">
        <Code text={command} />
      </Tabs.Panel>
      <Tabs.Panel value="python">
        <Code text={python} />
      </Tabs.Panel>
    </Tabs>
  );
}
