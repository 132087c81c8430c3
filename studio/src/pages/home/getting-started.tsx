/** What a new workspace shows: the three commands that get going. */
import { Anchor, Stack, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useMay } from "@/api/session";
import { Code } from "@/components/code";
import { Page } from "@/components/page";
import classes from "./home.module.css";

export function GettingStarted({ workspace }: { workspace: string }) {
  const may = useMay();
  const option = workspace === "default" ? "" : ` -w ${workspace}`;
  const steps = [
    ["Look at what there is to run on", `windlass compute list${option}`],
    ["Run a script on this computer", `windlass submit${option} train.py`],
    ["Attach a Linux machine, and run it there", `windlass compute attach ssh box${option} --address jane@192.0.2.7\nwindlass submit${option} --target box train.py`],
  ] as const;
  return (
    <Page title="Welcome to Windlass" name="Home" description={`The workspace ${workspace} has no runs yet.`}>
      <ol className={classes.steps}>
        {steps.map(([text, command], index) => (
          <li key={text}>
            <Stack gap={6}>
              <Title order={2} size="h3">
                {index + 1}. {text}
              </Title>
              <Code text={command} />
            </Stack>
          </li>
        ))}
      </ol>
      {may("runs.submit") && (
        <Text size="sm" mt="lg">
          Or{" "}
          <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/submit`} size="sm" underline="always">
            submit a folder from the browser
          </Anchor>
          .
        </Text>
      )}
    </Page>
  );
}
