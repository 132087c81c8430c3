/** The identity that answers at an address, to be compared by a person before it is trusted. */
import { Checkbox, Code as Inline, Group, Stack, Text, Title } from "@mantine/core";

import { Copy } from "@/components/code";
import classes from "./compute.module.css";
import type { Identity } from "./queries";

type Props = {
  identity: Identity;
  endpoint: string;
  isCompared: boolean;
  onCompared: (is: boolean) => void;
  /** The fingerprint that was pinned before. */
  former?: string | null;
};

export function IdentityCard({ identity, endpoint, isCompared, onCompared, former }: Props) {
  const details = Object.entries(identity.details).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  return (
    <section className={classes.identity} aria-label={`The ${identity.what}`}>
      <Title order={2} size="h3">
        {endpoint} shows this {identity.what}
      </Title>
      {former && (
        <div>
          <Text size="xs" c="dimmed">Before</Text>
          <span className={classes.fingerprint}>{former}</span>
        </div>
      )}
      <div>
        {former && <Text size="xs" c="dimmed">Now</Text>}
        <Group gap={4} wrap="nowrap" align="flex-start">
          <span className={classes.fingerprint} data-testid="fingerprint">{identity.shown_as}</span>
          <Copy text={identity.shown_as} label="Copy the fingerprint" />
        </Group>
      </div>
      {details.map(([name, value]) => (
        <Text key={name} size="sm" c="dimmed">
          {name.replaceAll("_", " ")}: {value}
        </Text>
      ))}
      {identity.how_to_compare && (
        <Stack gap={4}>
          <Text size="sm">Compare it with what this prints on the machine itself, at its console or over a connection that you trust:</Text>
          <Group gap={4} wrap="nowrap">
            <Inline>{identity.how_to_compare}</Inline>
            <Copy text={identity.how_to_compare} label="Copy the command" />
          </Group>
        </Stack>
      )}
      <Text size="sm" c="dimmed">
        From now on nothing is sent to {endpoint} if it shows another one. No password or key has been sent yet.
      </Text>
      <Checkbox
        label="I have compared it: it is the same"
        checked={isCompared}
        onChange={(event) => onCompared(event.currentTarget.checked)}
      />
    </section>
  );
}
