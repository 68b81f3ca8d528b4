. "$ASSAY_LIB/assay-isolated.sh"
. ./repository.sh

expect_stdout 'an address that nobody opens' 'neither here nor there' sh -c "$(open_on fix/1 git@github.com:user/repo.git --issue)"
finish
