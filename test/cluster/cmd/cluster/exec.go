package main

// exec replaces the current process by a command in the network of the first node. The command does not
// see other networks of the machine, but its files and processes.
func (c cluster) exec(args []string) error {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errUsage
	}
	_, nodes, err := c.runningNodes()
	if err != nil {
		return err
	}
	return cellOf(nodes[0]).Exec(args, nodes[0].ResolvConf())
}
