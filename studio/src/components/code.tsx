import { ActionIcon, CopyButton, Tabs, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

import classes from "./code.module.css";

/** A button that copies a text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : label}>
          <ActionIcon onClick={copy} aria-label={label} size="sm">
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
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
